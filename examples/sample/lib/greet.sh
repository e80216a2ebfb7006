# Prints a greeting for one name.
greet() {
    printf 'Hello, %s!\n' "$1"
}
