//! Facts of files in languages that are only scanned.

use context::index::OutlineBy;

use crate::index_golden::check;

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
