//! Ranks that call differently, refuse, or come late: who is named, and who is not.

use super::*;
use crate::ErrorKind;
use crate::bootstrap::report::Failure;

fn planes(size: u32) -> Vec<ControlPlane> {
    let id = new_id();
    let results = each_rank(0..size, move |rank| join(id, rank, size, &settings()).unwrap());
    collect(&results, usize::try_from(size).unwrap())
        .into_iter()
        .map(|(_, plane)| plane)
        .collect()
}

fn failures(planes: &[ControlPlane]) -> Vec<Failure> {
    planes
        .iter()
        .map(|plane| eventually("the failure", || plane.failure()))
        .collect()
}

#[test]
fn a_rank_with_another_count_is_named_on_every_rank() {
    let planes = planes(4);
    for (rank, plane) in planes.iter().enumerate() {
        with_status(plane, in_call(17, if rank == 2 { 1001 } else { 1000 }, 400));
    }
    for failure in failures(&planes) {
        assert_eq!(
            (failure.kind, failure.rank, failure.seq),
            (ErrorKind::Remote, Some(2), Some(17))
        );
        assert!(
            failure
                .message
                .contains("called AllReduce count=1001 float32 sum as call 17"),
            "{}",
            failure.message
        );
        assert!(
            failure.message.contains("rank 0 called AllReduce count=1000"),
            "{}",
            failure.message
        );
    }
}

#[test]
fn a_digest_mismatch_in_the_data_is_judged_at_once() {
    let planes = planes(3);
    for (rank, plane) in planes.iter().enumerate() {
        with_status(plane, in_call(4, if rank == 1 { 7 } else { 8 }, 0));
    }
    let begun = Instant::now();
    planes[2].disagree(4, 1);
    assert!(failures(&planes).iter().all(|failure| failure.rank == Some(1)));
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "no stall had to be waited for"
    );
}

#[test]
fn a_mismatch_that_no_record_explains_names_both_ranks() {
    let planes = planes(3);
    planes
        .iter()
        .for_each(|plane| with_status(plane, in_call(4, 8, 0)));
    planes[2].disagree(4, 1);
    for failure in failures(&planes) {
        assert!(
            failure.message.contains("rank 2 on") && failure.message.contains("from rank 1 on"),
            "{failure:?}"
        );
    }
}

#[test]
fn a_refused_call_is_an_error_for_those_that_made_it() {
    let planes = planes(3);
    for (rank, plane) in planes.iter().enumerate() {
        let mut status = in_call(5, 10, 300);
        if rank == 1 {
            let mut call = status.current.take().unwrap();
            call.refused = Some("argument `root`: 9 is out of range".into());
            status = StatusReport {
                recent: vec![call],
                completed: 6,
                ..StatusReport::default()
            };
        }
        with_status(plane, status);
    }
    for failure in failures(&planes) {
        assert_eq!(failure.rank, Some(1));
        assert!(
            failure.message.contains("argument `root`: 9 is out of range"),
            "{}",
            failure.message
        );
    }
}

#[test]
fn late_is_not_dead_and_the_late_rank_is_known() {
    let planes = planes(3);
    with_status(&planes[0], in_call(5, 10, 300));
    with_status(&planes[2], in_call(5, 10, 300));
    with_status(
        &planes[1],
        StatusReport {
            completed: 5,
            ..StatusReport::default()
        },
    );
    for plane in &planes {
        let report = eventually("the report", || plane.who_is_missing(5));
        assert_eq!((report.count, report.ranks[0].rank), (1, 1));
        assert!(
            report.describe().contains("is outside the library after 5 calls"),
            "{}",
            report.describe()
        );
        assert_eq!(plane.who_is_missing(6), None, "another call");
    }
    // Seconds later it comes, and nothing has failed.
    with_status(&planes[1], in_call(5, 10, 0));
    eventually("its arrival", || {
        planes[0].who_is_missing(5).filter(|report| report.count == 0)
    });
    assert!(planes.iter().all(|plane| plane.failure().is_none()));
}

#[test]
fn different_exchanges_fail_on_all_ranks() {
    let planes = Arc::new(planes(3));
    let results = each_rank(0..3, move |rank| {
        let what = if rank == 1 { "split" } else { "barrier" };
        planes[usize::try_from(rank).unwrap()]
            .allgather(what, &[], soon())
            .unwrap_err()
    });
    for (_, error) in collect(&results, 3) {
        assert_eq!(error.get("rank"), Some("1"), "{error}");
        assert!(
            error
                .message()
                .contains("is in `split` while rank 0 is in `barrier`"),
            "{error}"
        );
    }
}
