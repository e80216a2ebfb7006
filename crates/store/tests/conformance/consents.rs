//! Consents: a yes to one content at one place, which stays.

use domain::{PlanState, Work};

use super::bench::Bench;
use super::sample::plan_id;
use super::walk::reach;

const ROOT: &[u8] = b"/srv/w\xe9b";
const DIGEST: &str = "ab12";

pub(crate) async fn a_yes_is_to_one_content_at_one_root(bench: Bench) {
    let consented = async |root: &[u8], digest: &str| bench.store.consented(root, digest).await.unwrap();
    assert!(!consented(ROOT, DIGEST).await);
    bench.store.consent(ROOT, DIGEST).await.unwrap();
    bench.store.consent(ROOT, DIGEST).await.unwrap();
    assert!(consented(ROOT, DIGEST).await);
    for (root, digest) in
        [(ROOT, "ab1"), (ROOT, "AB12"), (b"/srv/w\xe9", DIGEST), (b"/srv/w\xe9b/", DIGEST), (b"", "")]
    {
        assert!(!consented(root, digest).await, "{root:?} {digest}");
    }
    assert!(!bench.another().store.consented(ROOT, DIGEST).await.unwrap());
}

pub(crate) async fn a_yes_outlives_the_plans(bench: Bench) {
    reach(&bench, 1, PlanState::Execute(Work::Cancelled)).await;
    bench.store.consent(ROOT, DIGEST).await.unwrap();
    assert!(bench.store.forget(plan_id(1)).await.unwrap());
    assert!(bench.store.consented(ROOT, DIGEST).await.unwrap());
}
