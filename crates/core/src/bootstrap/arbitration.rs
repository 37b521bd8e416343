//! Who disagrees about a call: the root's judgement over what every rank says it called. Pure.

use std::collections::BTreeMap;

use super::message::Answer;
use super::report::{CallRecord, Failure, LateRank, LateReport};
use crate::ErrorKind;

/// What the answers show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// A rank called something else, or refused its call.
    Disagree(Failure),
    /// Those that came agree; these have not come yet (late is not dead).
    Agree(LateReport),
}

/// Compares the answers of all ranks on call `seq`. Ranks without an answer count as late. `host` names a rank's host.
///
/// The group with most ranks is taken for right, the one with the lowest rank among equals; the first rank outside it is
/// named. A refused call is named before a different one, since it is the cause.
pub(crate) fn judge(
    seq: u64,
    size: u32,
    answers: &BTreeMap<u32, Answer>,
    host: &dyn Fn(u32) -> String,
) -> Judgement {
    let calls: Vec<(u32, &CallRecord)> = answers
        .iter()
        .filter_map(|(rank, answer)| match answer {
            Answer::Called(call) => Some((*rank, call)),
            _ => None,
        })
        .collect();
    let refused = calls
        .iter()
        .find_map(|(rank, call)| call.refused.as_ref().map(|why| (*rank, *call, why)));
    let accepted: Vec<(u32, &CallRecord)> = calls
        .iter()
        .filter(|(_, call)| call.refused.is_none())
        .copied()
        .collect();
    if let (Some((rank, call, why)), Some((waiting, _))) = (refused, accepted.first()) {
        let host = host(rank);
        let message = format!(
            "rank {rank} on {host} refused its call {seq} {}: {why}; rank {waiting} made the call and waits",
            call.text
        );
        return Judgement::Disagree(about(message, rank, host, call));
    }
    let mut groups: BTreeMap<(u32, &str), Vec<(u32, &CallRecord)>> = BTreeMap::new();
    for (rank, call) in accepted {
        // The text is compared as well: two calls whose 32-bit digests collide still differ in it.
        groups
            .entry((call.digest, call.text.as_str()))
            .or_default()
            .push((rank, call));
    }
    let majority = groups
        .values()
        .max_by_key(|ranks| (ranks.len(), std::cmp::Reverse(ranks[0].0)));
    let different = groups
        .values()
        .filter(|ranks| majority.is_some_and(|m| m[0].0 != ranks[0].0));
    if let (Some(majority), Some(other)) = (majority, different.min_by_key(|ranks| ranks[0].0)) {
        let ((rank, call), (reference, expected)) = (other[0], majority[0]);
        let host = host(rank);
        let message = format!(
            "rank {rank} on {host} called {} as call {seq} while rank {reference} called {}{}",
            call.text,
            expected.text,
            match majority.len() {
                1 => String::new(),
                n => format!(", as {n} ranks did"),
            }
        );
        return Judgement::Disagree(about(message, rank, host, call));
    }
    Judgement::Agree(late(seq, size, answers, host))
}

/// The failure when two ranks saw different digests in their data messages and their records do not explain it.
pub(crate) fn unexplained(seq: u64, rank: u32, peer: u32, host: &dyn Fn(u32) -> String) -> Failure {
    let message = format!(
        "rank {rank} on {} received data of call {seq} from rank {peer} on {} that belongs to another call; their own \
         records do not show which of them differs",
        host(rank),
        host(peer)
    );
    let mut failure = Failure::new(ErrorKind::Remote, 0, message).by(peer, host(peer));
    failure.seq = Some(seq);
    failure
}

fn about(message: String, rank: u32, host: String, call: &CallRecord) -> Failure {
    Failure::new(ErrorKind::Remote, 0, message)
        .by(rank, host)
        .during(Some(call))
}

fn late(seq: u64, size: u32, answers: &BTreeMap<u32, Answer>, host: &dyn Fn(u32) -> String) -> LateReport {
    let mut report = LateReport {
        seq,
        count: 0,
        ranks: Vec::new(),
    };
    for rank in 0..size {
        let (completed, current) = match answers.get(&rank) {
            Some(Answer::Called(_) | Answer::Forgotten) => continue,
            Some(Answer::NotYet { completed, current }) => (Some(*completed), current.clone()),
            None => (None, None),
        };
        report.count += 1;
        if report.ranks.len() < LateReport::SHOWN {
            report.ranks.push(LateRank {
                rank,
                host: host(rank),
                completed,
                current,
            });
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(count: u32) -> CallRecord {
        CallRecord {
            seq: 17,
            digest: count,
            text: format!("AllReduce count={count} float32 sum"),
            refused: None,
            phase: "reduce".into(),
        }
    }

    fn refused(count: u32, why: &str) -> CallRecord {
        CallRecord {
            refused: Some(why.into()),
            ..call(count)
        }
    }

    fn judged(answers: Vec<Answer>) -> Judgement {
        let size = u32::try_from(answers.len()).unwrap();
        let answers = (0..).zip(answers).collect();
        judge(17, size, &answers, &|rank| format!("host{rank}"))
    }

    fn failure(judgement: Judgement) -> Failure {
        match judgement {
            Judgement::Disagree(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    fn called(count: u32) -> Answer {
        Answer::Called(call(count))
    }

    #[test]
    fn the_minority_is_named_wherever_it_is() {
        let f = failure(judged(vec![
            called(1000),
            called(1000),
            called(1001),
            called(1000),
        ]));
        assert_eq!(
            (f.rank, f.seq, f.host.as_str(), f.kind),
            (Some(2), Some(17), "host2", ErrorKind::Remote)
        );
        assert_eq!(
            f.message,
            "rank 2 on host2 called AllReduce count=1001 float32 sum as call 17 while rank 0 called AllReduce count=1000 \
             float32 sum, as 3 ranks did"
        );
        let f = failure(judged(vec![called(5), called(6), called(6)]));
        assert_eq!(f.rank, Some(0), "rank 0 is no better than others");
        let f = failure(judged(vec![called(5), called(6)]));
        assert_eq!(f.rank, Some(1), "of two, the lower rank is the reference");
        let f = failure(judged(vec![called(5), called(5), called(6), called(7)]));
        assert_eq!(f.rank, Some(2), "the first that differs");
    }

    #[test]
    fn equal_digests_with_other_texts_differ() {
        let mut other = call(5);
        other.text = "Broadcast count=5".into();
        assert_eq!(
            failure(judged(vec![called(5), called(5), Answer::Called(other)])).rank,
            Some(2)
        );
    }

    #[test]
    fn a_refused_call_is_the_cause() {
        let f = failure(judged(vec![
            called(5),
            called(6),
            Answer::Called(refused(5, "root: 9 is out of range")),
        ]));
        assert_eq!(f.rank, Some(2));
        assert!(
            f.message.contains("refused its call 17") && f.message.contains("root: 9"),
            "{}",
            f.message
        );
        let all = vec![Answer::Called(refused(5, "a")), Answer::Called(refused(6, "b"))];
        assert!(
            matches!(judged(all), Judgement::Agree(_)),
            "when all refuse nobody waits"
        );
    }

    #[test]
    fn late_ranks_are_listed_and_nothing_is_wrong() {
        let in_another = Answer::NotYet {
            completed: 15,
            current: Some(CallRecord { seq: 16, ..call(3) }),
        };
        let outside = Answer::NotYet {
            completed: 16,
            current: None,
        };
        let answers: BTreeMap<u32, Answer> = [
            (0, called(5)),
            (1, in_another),
            (2, outside),
            (4, Answer::Forgotten),
        ]
        .into();
        let Judgement::Agree(report) = judge(17, 5, &answers, &|r| format!("h{r}")) else {
            panic!()
        };
        assert_eq!(report.count, 3);
        assert_eq!(report.ranks.iter().map(|l| l.rank).collect::<Vec<_>>(), [1, 2, 3]);
        let text = report.describe();
        assert!(text.starts_with("ranks 1-3 have not entered call 17"), "{text}");
        assert!(
            text.contains("rank 1 on h1 is in call 16 AllReduce count=3"),
            "{text}"
        );
        assert!(
            text.contains("rank 2 on h2 is outside the library after 16 calls"),
            "{text}"
        );
        assert!(text.contains("rank 3 on h3 does not answer"), "{text}");
    }
}
