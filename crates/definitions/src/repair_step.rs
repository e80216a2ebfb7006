//! The repair step, which repairs what checks found: `fix` of an actor, followed into the actors that it is
//! made of.

use domain::{MEMBER_SEPARATOR, NodeKind, nearest};

use crate::actor::RepairNode;
use crate::error::DiagnosticKind;
use crate::flatten::{ActorOrigin, Flattener};

impl Flattener<'_> {
    /// The repair step of an actor whose steps begin with `prefix` and are all there.
    pub(crate) fn mender(&mut self, whose: ActorOrigin<'_>, prefix: &str) -> Option<String> {
        let fix = whose.actor.fix.as_ref()?;
        let name = format!("{prefix}{}", fix.node);
        let Some(step) = self.steps.iter().find(|step| step.node == name) else {
            self.no_such_node(whose, prefix, fix);
            return None;
        };
        if !matches!(step.does, NodeKind::Actor { .. }) {
            return Some(name);
        }
        // An actor that is not sound was reported before.
        let mender = self.menders.get(&name)?.clone();
        if let (None, Some(at)) = (&mender, fix.at) {
            let message = format!(
                "`fix` names `{0}`, an actor without a `fix` of its own: name one of its nodes, like \
                 {0}{MEMBER_SEPARATOR}NODE",
                fix.node
            );
            self.report(whose, DiagnosticKind::Invalid, at, message);
        }
        mender
    }

    /// Reports a node that a nested actor does not have, if that actor has no errors: otherwise its nodes are
    /// not known.
    fn no_such_node(&mut self, whose: ActorOrigin<'_>, prefix: &str, fix: &RepairNode) {
        let Some((outer, child)) = fix.node.split_once(MEMBER_SEPARATOR) else { return };
        let actor = format!("{prefix}{outer}");
        let Some(at) = fix.at.filter(|_| self.menders.contains_key(&actor)) else { return };
        let members = format!("{actor}{MEMBER_SEPARATOR}");
        let names: Vec<&str> =
            self.steps.iter().filter_map(|step| step.node.strip_prefix(&members)).collect();
        let all = match nearest(child, names.iter().copied()) {
            Some(meant) => format!("; did you mean `{outer}{MEMBER_SEPARATOR}{meant}`?"),
            None => format!("; `{outer}` has {}", names.join(", ")),
        };
        let message = format!("`fix` names `{}`, which is not a node{all}", fix.node);
        self.report(whose, DiagnosticKind::Invalid, at, message);
    }
}
