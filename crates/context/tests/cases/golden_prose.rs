//! Facts of documents and settings: headings, tables, keys.

use context::index::OutlineBy;

use crate::index_golden::check;

#[test]
fn definitions_of_markdown() {
    check(
        "a.md",
        "# Title

Some words. More words.

```sh
# not a heading
```

## Part two ##

- item
",
        OutlineBy::Scan,
        "1 heading Title [1-8]
9 heading Part two [9-11]
",
        "1 heading Title [1-8] # Title | Some words.
9 heading Part two [9-11] ## Part two ## | - item
",
    );
}

#[test]
fn definitions_of_rst() {
    check(
        "a.rst",
        "=====
Title
=====

Words.

Part
----

More words here. And more.
",
        OutlineBy::Scan,
        "2 heading Title [2-6]
7 heading Part [7-10]
",
        "2 heading Title [2-6] Title | Words.
7 heading Part [7-10] Part | More words here.
",
    );
}

#[test]
fn definitions_of_asciidoc() {
    check(
        "a.adoc",
        "= Title

== Part

Words.
",
        OutlineBy::Scan,
        "1 heading Title [1-2]
3 heading Part [3-5]
",
        "1 heading Title [1-2] = Title | -
3 heading Part [3-5] == Part | Words.
",
    );
}

#[test]
fn definitions_of_toml() {
    check(
        "a.toml",
        r#"[package]
name = "x"

[[bin]]
list = [
  ["a", "b"],
]
"#,
        OutlineBy::Scan,
        "1 table package [1-3]
4 table bin [4-7]
",
        "1 table package [1-3] [package] | -
4 table bin [4-7] [[bin]] | -
",
    );
}

#[test]
fn definitions_of_yaml() {
    check(
        "a.yaml",
        r#"on:
  push:
    branches: [main]
jobs:
  build: x
"quoted": 1
- item: x
"#,
        OutlineBy::Scan,
        "1 key on [1-3]
4 key jobs [4-5]
6 key quoted [6-7]
",
        r#"1 key on [1-3] on: | -
4 key jobs [4-5] jobs: | -
6 key quoted [6-7] "quoted": 1 | -
"#,
    );
}
