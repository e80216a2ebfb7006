#!/bin/sh
# rename.sh OLD NEW: renames a shell function wherever it is defined or called.
set -eu
old=$1 new=$2
for file in *.sh lib/*.sh; do
    [ "$file" = rename.sh ] && continue
    sed "s/^$old()/$new()/; s/^\( *\)$old /\1$new /" "$file" > "$file.new"
    if cmp -s "$file" "$file.new"; then
        rm "$file.new"
    else
        cat "$file.new" > "$file"
        rm "$file.new"
        echo "renamed $old to $new in $file"
    fi
done
