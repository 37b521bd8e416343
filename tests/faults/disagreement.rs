//! Ranks as processes that do not mean the same call, one communicator after the other.

use infiniccl_tests::{Ranks, cluster};

use crate::RANK;

/// What rank 2 does in another way, and how the errors name it.
const CASES: [(&str, &str); 6] = [
    ("count", "count=1001"),
    ("op", "max"),
    ("dtype", "float32"),
    ("root", "root=3"),
    ("collective", "barrier"),
    ("argument", "recv"),
];

#[test]
fn every_rank_names_the_one_that_means_another_call() {
    for nodes in ["4", "1+2+1"] {
        let (cluster, layout) = cluster(nodes);
        let ended = Ranks::start(&cluster, &layout, RANK, &["disagree"]).wait();
        ended.all_succeeded();
        for rank in 0..4 {
            let errors = ended.events(rank, "error");
            assert_eq!(errors.len(), CASES.len(), "{}", ended.report());
            for (error, (what, word)) in errors.iter().zip(CASES) {
                let text = error.text("text");
                assert_eq!(
                    (error.text("phase"), error.text("kind")),
                    (what, "Remote"),
                    "{text}"
                );
                assert!(
                    text.contains("rank 2") && text.contains(word) && error.get("host").is_some(),
                    "{what} on rank {rank}: {text}"
                );
                assert_eq!(error.get("seq"), Some("0"), "{what} on rank {rank}: {text}");
            }
        }
    }
}
