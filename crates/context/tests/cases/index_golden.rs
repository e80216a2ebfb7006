//! What the scanner and the parser find in a file of each language, line by line.

use std::fmt::Write;

use context::index::{Facts, OutlineBy, Span, SpanKind, outline, scan, spans};

use crate::index_support::path;

/// `line kind name [first-last]` of each definition.
fn defs(facts: &Facts) -> String {
    facts.defs.iter().fold(String::new(), |mut out, def| {
        let _ = writeln!(out, "{} {} {} [{}-{}]", def.line, def.kind.word(), def.name, def.start, def.end);
        out
    })
}

/// `line kind name [first-last] signature | doc` of each item.
fn items(text: &str, facts: &Facts) -> (OutlineBy, String) {
    let made = outline(text, facts);
    let lines = made.items.iter().fold(String::new(), |mut out, item| {
        let signature = item.signature.replace('\n', "⏎");
        let place = format!("{} {} {} [{}-{}]", item.line, item.kind.word(), item.name, item.from, item.to);
        let _ = writeln!(out, "{place} {signature} | {}", item.doc.as_deref().unwrap_or("-"));
        out
    });
    (made.by, lines)
}

fn is_partition(text: &str, found: &[Span]) {
    let mut next = 1;
    for span in found {
        assert_eq!(span.from, next, "{found:?}");
        next = span.to + 1;
    }
    assert_eq!(next as usize, text.lines().count() + 1);
}

fn check(name: &str, text: &str, by: OutlineBy, expected_defs: &str, expected_items: &str) {
    let facts = scan(&path(name), text.as_bytes());
    assert_eq!(defs(&facts), expected_defs, "definitions of {name}");
    let (found_by, found) = items(text, &facts);
    assert_eq!(found, expected_items, "outline of {name}");
    assert_eq!(found_by, by, "{name}");
    is_partition(text, &spans(text, &facts));
    let outline = outline(text, &facts);
    let along = outline.spans(text);
    is_partition(text, &along);
    let begun = along.iter().filter(|span| span.kind == SpanKind::Def).count();
    assert_eq!(begun, outline.items.len(), "each item begins one span");
}

#[test]
fn definitions_of_rust() {
    check(
        "a.rs",
        r#"//! Top.

use std::fmt;

/// Limits of a thing.
///
/// More words.
#[derive(Clone)]
pub struct Limits {
    pub max: u32,
}

pub(crate) enum Kind { A, B }

impl Limits {
    /* Checks. */
    #[inline]
    pub const fn check(&self, value: u32) -> bool {
        let inner = value;
        inner <= self.max
    }

    pub async fn long<T>(
        &self,
        first: T,
        second: T,
    ) -> Result<T, String>
    where
        T: Copy,
    {
        Ok(first)
    }
}

pub trait Walk {
    type Item;
    fn walk(&self) -> Self::Item;
}

macro_rules! twice {
    ($e:expr) => { $e; $e };
}

const MAX: u32 = 5;
static mut COUNT: u32 = 0;
pub type Pair = (u32, u32);
mod inner;
extern "C" fn call() {}
// fn commented() {}
"#,
        OutlineBy::Parser,
        "9 struct Limits [5-12]
13 enum Kind [13-15]
18 fn check [16-22]
23 fn long [23-34]
35 trait Walk [35-35]
36 type Item [36-36]
37 fn walk [37-39]
40 macro twice [40-43]
44 const MAX [44-44]
45 const COUNT [45-45]
46 type Pair [46-46]
47 mod inner [47-47]
48 fn call [48-49]
",
        r#"9 struct Limits [5-11] pub struct Limits | Limits of a thing.
13 enum Kind [13-13] pub(crate) enum Kind | -
15 impl Limits [15-33] impl Limits | -
18 fn check [16-21] pub const fn check(&self, value: u32) -> bool | Checks.
23 fn long [23-32] pub async fn long<T>(⏎        &self,⏎        first: T,⏎        second: T, | -
35 trait Walk [35-38] pub trait Walk | -
36 type Item [36-36] type Item; | -
37 fn walk [37-37] fn walk(&self) -> Self::Item; | -
40 macro twice [40-42] macro_rules! twice | -
44 const MAX [44-44] const MAX: u32 = 5; | -
45 const COUNT [45-45] static mut COUNT: u32 = 0; | -
46 type Pair [46-46] pub type Pair = (u32, u32); | -
47 mod inner [47-47] mod inner; | -
48 fn call [48-48] extern "C" fn call() | -
"#,
    );
}

#[test]
fn definitions_of_python() {
    check(
        "a.py",
        r#""""Module."""
import os

LIMIT = 3


@decorated
@other(1)
class Job(Base):
    """A job that runs."""

    def run(self, value, *, retries=3):
        # starts it
        return self._run(value)

    async def _run(self, value):
        def nested():
            pass
        return nested


def main() -> None:
    """Runs
    everything."""
    os.exit()
"#,
        OutlineBy::Parser,
        "9 class Job [7-11]
12 fn run [12-15]
16 fn _run [16-16]
17 fn nested [17-21]
22 fn main [22-25]
",
        "4 const LIMIT [4-4] LIMIT = 3 | -
9 class Job [7-19] class Job(Base) | A job that runs.
12 fn run [12-14] def run(self, value, *, retries=3) | -
16 fn _run [16-19] async def _run(self, value) | -
17 fn nested [17-18] def nested() | -
22 fn main [22-25] def main() -> None | Runs
",
    );
}

#[test]
fn definitions_of_javascript() {
    check(
        "a.js",
        r#"import x from "y";

/** Adds. */
export function add(a, b) {
  return a + b;
}

export default class Store extends Base {
  constructor(name) {
    super();
    this.call(() => {
      run();
    });
  }

  static async load(id) {
    const inner = 1;
    if (id) {
      return inner;
    }
  }

  get size() { return 1; }

  #hidden() {
  }
}

const handler = async (event) => {
  return event;
};
export const LIMIT = 5;
let count = 0;
describe("store", () => {
  it("works", async () => {
  });
});
"#,
        OutlineBy::Parser,
        "4 fn add [3-7]
8 class Store [8-8]
9 fn constructor [9-15]
16 fn load [16-22]
23 fn size [23-24]
25 fn hidden [25-28]
29 const handler [29-31]
32 const LIMIT [32-32]
33 var count [33-37]
",
        "4 fn add [3-6] export function add(a, b) | Adds.
8 class Store [8-27] export default class Store extends Base | -
9 fn constructor [9-14] constructor(name) | -
16 fn load [16-21] static async load(id) | -
23 fn size [23-23] get size() | -
25 fn #hidden [25-26] #hidden() | -
29 fn handler [29-31] const handler = async (event) => | -
32 const LIMIT [32-32] export const LIMIT = 5; | -
33 var count [33-33] let count = 0; | -
",
    );
}

#[test]
fn definitions_of_typescript() {
    check(
        "a.ts",
        "/** A job. */
export interface Job {
  id: string;
  run(input: string): Promise<void>;
}

export type Handler = (job: Job) => void;

export enum State { Idle, Busy }

export abstract class Worker<T> {
  private readonly jobs: Job[] = [];

  public async take(
    limit: number,
  ): Promise<Job | undefined> {
    return this.jobs[0];
  }

  abstract stop(): void;
}

export const start = (worker: Worker<Job>): void => {
  worker.take(1);
};

namespace Inner {
  export function help(): void {}
}

declare function outside(a: number): string;
",
        OutlineBy::Parser,
        "2 interface Job [1-6]
7 type Handler [7-8]
9 enum State [9-10]
11 class Worker [11-13]
14 fn take [14-22]
23 const start [23-26]
27 mod Inner [27-27]
28 fn help [28-30]
31 fn outside [31-31]
",
        "2 interface Job [1-5] export interface Job | A job.
4 fn run [4-4] run(input: string): Promise<void> | -
7 type Handler [7-7] export type Handler = (job: Job) => void; | -
9 enum State [9-9] export enum State | -
11 class Worker [11-21] export abstract class Worker<T> | -
14 fn take [14-18] public async take(⏎    limit: number,⏎  ): Promise<Job | undefined> | -
20 fn stop [20-20] abstract stop(): void | -
23 fn start [23-25] export const start = (worker: Worker<Job>): void => | -
27 mod Inner [27-29] namespace Inner | -
28 fn help [28-28] export function help(): void | -
31 fn outside [31-31] declare function outside(a: number): string; | -
",
    );
}

#[test]
fn definitions_of_typescript_with_jsx() {
    check(
        "a.tsx",
        r#"import React from "react";

export function Button({ label }: { label: string }) {
  return <button>{label}</button>;
}

export const Panel = () => {
  return <Button label="x" />;
};
"#,
        OutlineBy::Parser,
        "3 fn Button [3-6]
7 const Panel [7-9]
",
        "3 fn Button [3-5] export function Button({ label }: { label: string }) | -
7 fn Panel [7-9] export const Panel = () => | -
",
    );
}

#[test]
fn definitions_of_go() {
    check(
        "a.go",
        r#"package store

import "fmt"

// Client talks.
type Client struct {
	name string
}

type Walker interface {
	Walk(dir string) error
}

type ID string

const Max = 5

var count, total int

// Run runs it.
func (c *Client) Run(ctx context.Context, args ...string) (int, error) {
	go func() {
		fmt.Println(c.name)
	}()
	return 0, nil
}

func Map[T any](in []T) []T {
	return in
}
"#,
        OutlineBy::Parser,
        "6 struct Client [5-9]
10 interface Walker [10-13]
14 type ID [14-15]
16 const Max [16-17]
18 var count [18-19]
21 fn Run [20-27]
28 fn Map [28-30]
",
        "6 struct Client [5-8] type Client struct | Client talks.
10 interface Walker [10-12] type Walker interface | -
11 fn Walk [11-11] Walk(dir string) error | -
14 type ID [14-14] type ID string | -
16 const Max [16-16] const Max = 5 | -
18 var count [18-18] var count, total int | -
21 fn Run [20-26] func (c *Client) Run(ctx context.Context, args ...string) (int, error) | Run runs it.
28 fn Map [28-30] func Map[T any](in []T) []T | -
",
    );
}

#[test]
fn definitions_of_java() {
    check(
        "A.java",
        "package a.b;

/**
 * A store.
 */
@Service
public class Store extends Base implements Closeable {
    private static final int MAX = 5;

    public Store(String name) {
        super(name);
    }

    @Override
    public void close() throws IOException {
        if (open) {
            release();
        }
        for (Item item : items) {
            item.close();
        }
    }

    protected abstract <T extends Item> List<T> find(
            String name,
            int limit);

    enum State { IDLE, BUSY }

    interface Listener {
        void changed(Store store);
    }

    record Point(int x, int y) {}
}
",
        OutlineBy::Parser,
        "7 class Store [3-9]
10 fn Store [10-13]
15 fn close [14-27]
28 enum State [28-29]
30 interface Listener [30-33]
34 struct Point [34-35]
",
        "7 class Store [3-35] public class Store extends Base implements Closeable | A store.
10 fn Store [10-12] public Store(String name) | -
15 fn close [14-22] public void close() throws IOException | -
24 fn find [24-26] protected abstract <T extends Item> List<T> find(⏎            String name,⏎            int limit); | -
28 enum State [28-28] enum State | -
30 interface Listener [30-32] interface Listener | -
31 fn changed [31-31] void changed(Store store); | -
34 struct Point [34-34] record Point(int x, int y) | -
",
    );
}

#[test]
fn definitions_of_c() {
    check(
        "a.c",
        r#"#include <stdio.h>

#define MAX(a, b) ((a) > (b) ? (a) : (b))

struct list {
    struct list *next;
};

typedef struct {
    int x;
} point_t;

enum color { RED, GREEN };

static struct list *make(int size);

/* Makes a list. */
static struct list *make(int size)
{
    while (size > 0) {
        size--;
    }
    return NULL;
}

int
main (int argc, char **argv)
{
    return 0;
}

void long_one(int first,
              int second) {
    printf("%d", first);
}
"#,
        OutlineBy::Parser,
        "5 struct list [5-12]
13 enum color [13-16]
18 fn make [17-26]
27 fn main [27-31]
32 fn long_one [32-35]
",
        "3 macro MAX [3-3] #define MAX(a, b) ((a) > (b) ? (a) : (b)) | -
5 struct list [5-7] struct list | -
11 struct point_t [9-11] typedef struct … point_t | -
13 enum color [13-13] enum color | -
15 fn make [15-15] static struct list *make(int size); | -
18 fn make [17-24] static struct list *make(int size) | Makes a list.
27 fn main [26-30] int⏎main (int argc, char **argv) | -
32 fn long_one [32-35] void long_one(int first,⏎              int second) | -
",
    );
}

#[test]
fn definitions_of_c_plus_plus() {
    check(
        "a.cpp",
        "#include <vector>

namespace store {

template <typename T>
class Queue : public Base {
 public:
  explicit Queue(int size) : size_(size) {}

  void push(T value) {
    items_.push_back(value);
    for (auto &item : items_) {
      use(item);
    }
  }

  bool empty() const override;
};

enum class Color { Red };

void Queue::drain(int limit)
{
  lock();
}

}  // namespace store
",
        OutlineBy::Scan,
        "3 mod store [3-4]
6 class Queue [5-7]
8 fn Queue [8-9]
10 fn push [10-19]
20 enum Color [20-21]
22 fn drain [22-27]
",
        "3 mod store [3-4] namespace store | -
6 class Queue [5-7] class Queue : public Base | -
8 fn Queue [8-9] explicit Queue(int size) : size_(size) {} | -
10 fn push [10-19] void push(T value) | -
20 enum Color [20-21] enum class Color { Red }; | -
22 fn drain [22-27] void Queue::drain(int limit) | -
",
    );
}

#[test]
fn definitions_of_ruby() {
    check(
        "a.rb",
        "module Store
  # A job.
  class Job < Base
    def self.load(id)
    end

    def run!
    end
  end
end
",
        OutlineBy::Scan,
        "1 mod Store [1-1]
3 class Job [2-3]
4 fn load [4-6]
7 fn run [7-10]
",
        "1 mod Store [1-1] module Store | -
3 class Job [2-3] class Job < Base | A job.
4 fn load [4-6] def self.load(id) | -
7 fn run [7-10] def run! | -
",
    );
}

#[test]
fn definitions_of_kotlin() {
    check(
        "a.kt",
        "package a

/** A job. */
data class Job(val id: String)

object Registry {
    fun find(id: String): Job? {
        val local = 1
        return null
    }
}

suspend fun <T> List<T>.each(block: (T) -> Unit) {
}
",
        OutlineBy::Scan,
        "4 class Job [3-5]
6 mod Registry [6-6]
7 fn find [7-12]
13 fn each [13-14]
",
        "4 class Job [3-5] data class Job(val id: String) | A job.
6 mod Registry [6-6] object Registry | -
7 fn find [7-12] fun find(id: String): Job? | -
13 fn each [13-14] suspend fun <T> List<T>.each(block: (T) -> Unit) | -
",
    );
}

#[test]
fn definitions_of_a_shell_script() {
    check(
        "run",
        "#!/usr/bin/env bash
set -e

# Says hello.
hello() {
  echo hello
}

function bye {
  echo bye
}
",
        OutlineBy::Scan,
        "5 fn hello [4-8]
9 fn bye [9-11]
",
        "5 fn hello [4-8] hello() | Says hello.
9 fn bye [9-11] function bye | -
",
    );
}

#[test]
fn definitions_of_protocol_buffers() {
    check(
        "a.proto",
        r#"syntax = "proto3";

// A job.
message Job {
  string id = 1;
  enum State { IDLE = 0; }
}

service Jobs {
  rpc Take(Job) returns (Job);
}
"#,
        OutlineBy::Scan,
        "4 message Job [3-5]
6 enum State [6-8]
9 service Jobs [9-9]
10 rpc Take [10-11]
",
        "4 message Job [3-5] message Job | A job.
6 enum State [6-8] enum State { IDLE = 0; } | -
9 service Jobs [9-9] service Jobs | -
10 rpc Take [10-11] rpc Take(Job) returns (Job); | -
",
    );
}

#[test]
fn definitions_of_sql() {
    check(
        "a.sql",
        "-- Jobs.
CREATE TABLE IF NOT EXISTS app.jobs (
  id INT
);
create unique index jobs_id on jobs(id);
",
        OutlineBy::Scan,
        "2 table jobs [1-4]
5 table jobs_id [5-5]
",
        "2 table jobs [1-4] CREATE TABLE IF NOT EXISTS app.jobs (⏎  id INT⏎); | Jobs.
5 table jobs_id [5-5] create unique index jobs_id on jobs(id); | -
",
    );
}

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
