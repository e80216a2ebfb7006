//! Consents: a yes to one content at one place, which stays.

use domain::{PlanState, WorkState};

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
    reach(&bench, 1, PlanState::Execute(WorkState::Cancelled)).await;
    bench.store.consent(ROOT, DIGEST).await.unwrap();
    assert_eq!(bench.store.forget(vec![plan_id(1)]).await, Ok(vec![plan_id(1)]));
    assert!(bench.store.consented(ROOT, DIGEST).await.unwrap());
}

pub(crate) async fn a_revoked_root_has_no_yes(bench: Bench) {
    for (root, digest) in [(ROOT, DIGEST), (ROOT, "cd34"), (b"/srv", DIGEST)] {
        bench.store.consent(root, digest).await.unwrap();
    }
    let roots = bench.store.consented_roots().await.unwrap();
    assert_eq!(roots, [(b"/srv".to_vec(), 1), (ROOT.to_vec(), 2)]);
    assert_eq!(bench.store.revoke_consents(ROOT).await.unwrap(), 2);
    assert_eq!(bench.store.revoke_consents(ROOT).await.unwrap(), 0);
    assert!(!bench.store.consented(ROOT, DIGEST).await.unwrap());
    assert!(bench.store.consented(b"/srv", DIGEST).await.unwrap());
}
