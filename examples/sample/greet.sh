#!/bin/sh
# Greets everybody in names.txt.
. ./lib/greet.sh

while read -r name; do
    greet "$name"
done < names.txt
