# usage: sh tree.sh DEPTH DIR
#
# A process that does not want to end: it ignores what asks it to, starts the next one, and goes on writing into the
# directory that it was started in and into DIR. Every second one is started by a process that is gone at once, in a
# session of its own, so that it is nobody's child and in nobody's group.
trap '' TERM INT HUP QUIT
depth=$1 dir=$2
if [ "$depth" -gt 0 ]; then
    next=$((depth - 1))
    if [ $((depth % 2)) -eq 0 ]; then
        (setsid sh "$0" "$next" "$dir" </dev/null >/dev/null 2>&1 &)
    else
        sh "$0" "$next" "$dir" </dev/null >/dev/null 2>&1 &
    fi
fi
while :; do
    echo "$depth" >>"beats.$depth"
    echo "$depth" >>"$dir/beats.$depth"
    sleep 0.02
done
