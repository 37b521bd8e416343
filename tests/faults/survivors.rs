//! What every rank must get when another one fails.

use infiniccl_testkit::job::Exit;
use infiniccl_tests::{Ended, Event};

/// What a busy machine may add to any time.
pub(crate) const SLACK_MS: u64 = 2000;

/// The error that ranks are expected to get.
pub(crate) struct Expected<'a> {
    /// The rank that is to blame, and the part of its host's name that tells its node.
    pub(crate) culprit: usize,
    pub(crate) kinds: &'a [&'a str],
    /// The collective in progress; `None` where a rank may be between two.
    pub(crate) collective: Option<&'a str>,
    /// What else the text has to say; one of these.
    pub(crate) says: &'a [&'a str],
    /// When it happened, and the longest that the news may take.
    pub(crate) since: u64,
    pub(crate) within_ms: u64,
}

/// Asserts that each of `ranks` got the error, in time, and that its communicator ended well after it.
pub(crate) fn got(ended: &Ended, ranks: impl IntoIterator<Item = usize>, expected: &Expected<'_>) {
    for rank in ranks {
        let errors = ended.events(rank, "error");
        let error = errors
            .first()
            .unwrap_or_else(|| panic!("rank {rank} got no error\n{}", ended.report()));
        blames(ended, error, expected);
        let took = error.number("at").saturating_sub(expected.since);
        assert!(
            took <= expected.within_ms + SLACK_MS,
            "rank {rank} heard of it after {took} ms\n{}",
            ended.report()
        );
        let after = ended.event(rank, "aftermath");
        assert_eq!(after.text("same"), "true", "the first error stays: {after:?}");
        assert_eq!(after.text("stored"), error.text("kind"), "{after:?}");
        assert!(
            after.number("abort_ms") < 1000,
            "abort waits for nobody: {after:?}"
        );
        assert!(
            after.number("drop_ms") < 3000,
            "nor does the end: {after:?}\n{}",
            ended.report()
        );
        assert!(
            matches!(ended.exit(rank), Exit::Code(6..=10)),
            "rank {rank} {}",
            ended.exit(rank)
        );
    }
}

/// Asserts that an error names kind, rank, host and call.
pub(crate) fn blames(ended: &Ended, error: &Event, expected: &Expected<'_>) {
    let report = || format!("{error:?}\n{}", ended.report());
    assert!(expected.kinds.contains(&error.text("kind")), "{}", report());
    let text = error.text("text");
    assert_eq!(
        error.get("rank"),
        Some(&*expected.culprit.to_string()),
        "{}",
        report()
    );
    assert!(
        text.contains(&format!("rank {}", expected.culprit)),
        "{}",
        report()
    );
    assert!(error.get("host").is_some_and(|h| !h.is_empty()), "{}", report());
    if let Some(collective) = expected.collective {
        let named = error.get("collective").is_some_and(|c| c.contains(collective));
        assert!(named && error.get("seq").is_some(), "{}", report());
    }
    assert!(
        expected.says.is_empty() || expected.says.iter().any(|part| text.contains(part)),
        "{}",
        report()
    );
}
