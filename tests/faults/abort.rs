//! A rank that ends the communicator of all.

use infiniccl_tests::{Ranks, Traces, cluster};

use crate::RANK;
use crate::survivors::{Expected, got};

#[test]
fn an_abort_by_one_rank_ends_the_call_on_every_rank() {
    for nodes in ["4", "1+2+1"] {
        let (cluster, layout) = cluster(nodes);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("go");
        let go = format!("go={}", file.display());
        let ranks = Ranks::start(&cluster, &layout, RANK, &["abort", "rank=1", &go]);
        for rank in [0, 2, 3] {
            ranks.event(rank, "call");
        }
        let traces = Traces::of(&ranks);
        std::fs::write(&file, "").expect("the file can be written");
        let since = ranks.event(1, "aborts").number("at");
        let ended = ranks.wait();
        let mut expected = Expected {
            culprit: 1,
            kinds: &["Aborted"],
            collective: Some("all_reduce count=1048576 float32 sum"),
            says: &["rank 1 aborted the communicator"],
            since,
            within_ms: 2000,
        };
        got(&ended, [0, 2, 3], &expected);
        expected.collective = None;
        got(&ended, [1], &expected);
        traces.are_gone(&cluster, &layout, &ended);
    }
}
