#!/bin/sh
# Every name is greeted once, in order.
set -eu
expected=$(sed 's/.*/Hello, &!/' names.txt)
actual=$(sh greet.sh)
if [ "$actual" != "$expected" ]; then
    printf 'expected:\n%s\ngot:\n%s\n' "$expected" "$actual" >&2
    exit 1
fi
echo "all $(wc -l < names.txt) names greeted"
