//! Facts of files in JavaScript and its relatives.

use context::index::OutlineBy;

use crate::index_golden::check;

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
