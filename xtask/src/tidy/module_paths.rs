//! Paths in code say where a thing is: no chain of three `super`, which a reader has to count.

use super::Finding;

const CHAIN: &str = concat!("super::super", "::super");

pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let lines = text.lines().enumerate().filter(|(_, line)| line.contains(CHAIN));
    lines.map(|(index, _)| Finding::new(path, index + 1, "name the path from `crate::`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_has_to_be_counted_is_found() {
        assert_eq!(check("a.rs", &format!("use {CHAIN}::a;\n")).len(), 1);
        assert_eq!(check("a.rs", "use super::super::a;\n"), []);
    }
}
