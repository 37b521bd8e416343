//! Arguments that are refused or taken, and in-place formulas.

use super::*;

const BASE: u64 = 0x10000;

fn call(collective: Collective, send: u64, recv: u64, count: u64) -> RawCall {
    RawCall {
        collective,
        send: send as *const u8,
        recv: recv as *mut u8,
        count,
        dtype: DataType::Float32,
        op: RedOp::Fixed(ReduceOp::Sum),
        root: 1,
        peer: 0,
        vector: None,
    }
}

fn argument(result: Result<Option<InPlace>, BadArgument>) -> &'static str {
    result.expect_err("is refused").argument
}

#[test]
fn in_place_follows_the_formula_of_each_collective() {
    let here = |c| Ok(Some(c));
    let same = InPlace {
        send_offset: 0,
        recv_offset: 0,
    };
    assert_eq!(
        check(&call(Collective::AllReduce, BASE, BASE, 10), 2, 4),
        here(same)
    );
    assert_eq!(
        check(&call(Collective::AllGather, BASE + 80, BASE, 10), 2, 4),
        here(InPlace {
            send_offset: 80,
            recv_offset: 0
        })
    );
    assert_eq!(
        check(&call(Collective::ReduceScatter, BASE, BASE + 80, 10), 2, 4),
        here(InPlace {
            send_offset: 0,
            recv_offset: 80
        })
    );
    // the same pointers are another thing on another rank
    assert_eq!(
        argument(check(&call(Collective::AllGather, BASE + 80, BASE, 10), 1, 4)),
        "recv"
    );
    assert_eq!(
        argument(check(&call(Collective::AllReduce, BASE, BASE + 4, 10), 0, 4)),
        "recv"
    );
    assert_eq!(
        argument(check(&call(Collective::AllToAll, BASE, BASE, 10), 0, 4)),
        "recv"
    );
    assert_eq!(
        check(&call(Collective::AllReduce, BASE, BASE + 40, 10), 0, 4),
        Ok(None)
    );
}

#[test]
fn null_is_allowed_exactly_where_nothing_is_touched() {
    use Collective::*;
    for collective in [
        AllReduce,
        Broadcast,
        Reduce,
        AllGather,
        ReduceScatter,
        Gather,
        Scatter,
        AllToAll,
    ] {
        assert_eq!(
            check(&call(collective, 0, 0, 0), 0, 4),
            Ok(None),
            "{collective} of nothing"
        );
        let both = (
            check(&call(collective, 0, BASE, 3), 0, 4),
            check(&call(collective, BASE, 0, 3), 0, 4),
        );
        // rank 0 is not the root, which is 1
        let (send_may_be_null, recv_may_be_null) = match collective {
            Broadcast | Scatter => (true, false),
            Reduce | Gather => (false, true),
            _ => (false, false),
        };
        assert_eq!(both.0.is_ok(), send_may_be_null, "{collective} send");
        assert_eq!(both.1.is_ok(), recv_may_be_null, "{collective} recv");
    }
}

#[test]
fn ranges_and_sizes_are_checked() {
    let mut c = call(Collective::Broadcast, BASE, BASE, 1);
    c.root = 4;
    assert_eq!(argument(check(&c, 0, 4)), "root");
    let mut c = call(Collective::Send, BASE, 0, 1);
    c.peer = 9;
    assert_eq!(argument(check(&c, 0, 4)), "peer");
    assert_eq!(
        argument(check(
            &call(Collective::AllReduce, BASE, 2 * BASE, u64::MAX / 2),
            0,
            4
        )),
        "count"
    );
    assert_eq!(
        argument(check(
            &call(Collective::AllGather, BASE, 2 * BASE, u64::MAX / 8),
            0,
            4
        )),
        "count"
    );
    assert_eq!(
        argument(check(&call(Collective::AllReduce, BASE + 2, 4 * BASE, 1), 0, 4)),
        "send"
    );
    let mut c = call(Collective::AllReduce, BASE, 2 * BASE, 1);
    c.dtype = DataType::Bool;
    c.op = RedOp::Fixed(ReduceOp::Avg);
    assert_eq!(argument(check(&c, 0, 4)), "op");
}

#[test]
fn vectors_have_an_entry_per_rank_and_do_not_overlap() {
    let mut c = call(Collective::AllGatherV, BASE, 4 * BASE, 0);
    assert_eq!(argument(check(&c, 0, 2)), "counts");
    let v = |recv_counts: &[u64], recv_displs: &[u64]| VectorCounts {
        recv_counts: recv_counts.to_vec(),
        recv_displs: recv_displs.to_vec(),
        ..VectorCounts::default()
    };
    c.vector = Some(v(&[1, 2, 3], &[0, 1, 3]));
    assert_eq!(argument(check(&c, 0, 2)), "recv_counts");
    c.vector = Some(v(&[2, 2], &[0, 1]));
    assert_eq!(argument(check(&c, 0, 2)), "recv_displs");
    c.vector = Some(v(&[2, 2], &[5, 0]));
    assert_eq!(check(&c, 0, 2), Ok(None));
}
