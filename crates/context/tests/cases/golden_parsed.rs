//! Facts of files in languages that are parsed: definitions by the scan, outlines by the parser.

use context::index::OutlineBy;

use crate::index_golden::check;

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
23 fn long [23-32] pub async fn long<T>(⏎        &self,⏎        first: T,⏎        second: T, … | -
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
