//! Streams, events, copies, local arithmetic, memory, attributes: the rest of the table.

use crate::cluster::{check, desc, open, ranks, table};
use crate::memory::{Guarded, POISON};
use infiniccl_plugin_api::{
    CapRow, CollDesc, Collective, CopyDesc, DType, MemInfo, MemKind, PropertySink, RedOp, ReduceDesc, Rows,
    ScaleDesc, Status, device_attr, stream_flags,
};

fn copy(dst: &mut Guarded, src: &Guarded) -> CopyDesc {
    CopyDesc {
        dst: dst.ptr_mut(),
        src: src.ptr(),
        bytes: src.bytes().len() as u64,
        dst_kind: MemKind::HOST,
        src_kind: MemKind::PINNED,
        reserved: [0; 2],
    }
}

#[test]
fn work_of_a_stream_is_ordered_and_waits_for_events_of_another() {
    for flags in [0, stream_flags::POLLED] {
        let device = open(&[]);
        let (mut first, mut second, mut event, mut token) = (0, 0, 0, 0);
        check(table().stream_create()(device, flags, &mut first)).expect("stream");
        check(table().stream_create()(device, flags, &mut second)).expect("stream");
        check(table().event_create()(device, &mut event)).expect("event");
        let source = Guarded::with(b"first");
        let (mut middle, mut last) = (Guarded::new(5), Guarded::new(5));
        check(table().stream_hold()(device, first, &mut token)).expect("hold");
        check(table().copy()(device, first, &copy(&mut middle, &source), 1)).expect("copy");
        check(table().event_record()(device, event, first)).expect("record");
        check(table().event_wait()(device, event, second)).expect("wait");
        let onward = copy(&mut last, &middle);
        check(table().copy()(device, second, &onward, 1)).expect("copy");
        check(table().event_record()(device, event, second)).expect("record");
        assert_eq!(
            table().event_synchronize()(device, event, 5_000_000),
            Status::IN_PROGRESS
        );
        assert_eq!(
            (middle.bytes(), last.bytes()),
            (&[POISON; 5][..], &[POISON; 5][..])
        );
        assert_eq!(
            table().stream_destroy()(device, first),
            Status::USAGE,
            "work is left"
        );
        check(table().stream_release()(device, token)).expect("release");
        assert_eq!(
            table().stream_release()(device, token),
            Status::USAGE,
            "released twice"
        );
        check(table().event_synchronize()(device, event, 20_000_000_000)).expect("done");
        assert_eq!(last.bytes(), b"first");
        check(table().event_destroy()(device, event)).expect("destroyed");
        check(table().stream_destroy()(device, first)).expect("destroyed");
        check(table().stream_destroy()(device, second)).expect("destroyed");
        assert_eq!(
            table().stream_destroy()(device, second),
            Status::USAGE,
            "destroyed twice"
        );
        check(table().device_close()(device)).expect("closed");
    }
}

#[test]
fn an_adopted_stream_is_the_same_stream() {
    let device = open(&[]);
    let (mut own, mut adopted, mut token, mut event) = (0_u64, 0, 0, 0);
    check(table().stream_create()(device, 0, &mut own)).expect("stream");
    let native = std::ptr::without_provenance_mut(usize::try_from(own).expect("handle"));
    check(table().stream_adopt()(device, native, &mut adopted)).expect("adopted");
    check(table().stream_hold()(device, own, &mut token)).expect("hold");
    check(table().event_create()(device, &mut event)).expect("event");
    check(table().event_record()(device, event, adopted)).expect("record");
    assert_eq!(table().event_query()(device, event), Status::IN_PROGRESS);
    check(table().stream_release()(device, token)).expect("release");
    check(table().event_synchronize()(device, event, 20_000_000_000)).expect("done");
    check(table().stream_destroy()(device, adopted)).expect("forgotten");
    check(table().stream_destroy()(device, own)).expect("destroyed");
    let nothing = std::ptr::without_provenance_mut(999);
    assert_eq!(
        table().stream_adopt()(device, nothing, &mut adopted),
        Status::USAGE
    );
    check(table().event_destroy()(device, event)).expect("destroyed");
    check(table().device_close()(device)).expect("closed");
}

#[test]
fn a_failed_collective_shows_at_its_event_and_not_at_the_next() {
    ranks(2, |rank| {
        let (mut stream, mut bad, mut good) = (0, 0, 0);
        check(table().stream_create()(rank.device, 0, &mut stream)).expect("stream");
        for event in [&mut bad, &mut good] {
            check(table().event_create()(rank.device, event)).expect("event");
        }
        let root = u32::try_from(rank.rank).expect("small");
        let mut buffer = Guarded::new(8);
        let call = CollDesc {
            root,
            send: buffer.ptr(),
            recv: buffer.ptr_mut(),
            count: 8,
            ..desc(Collective::BROADCAST)
        };
        check(table().enqueue()(rank.comm, &call, 1, stream)).expect("queued");
        check(table().event_record()(rank.device, bad, stream)).expect("record");
        let (source, mut target) = (Guarded::with(b"ok"), Guarded::new(2));
        check(table().copy()(
            rank.device,
            stream,
            &copy(&mut target, &source),
            1,
        ))
        .expect("copy");
        check(table().event_record()(rank.device, good, stream)).expect("record");
        let refusal =
            check(table().event_synchronize()(rank.device, bad, 20_000_000_000)).expect_err("roots");
        assert_eq!(refusal.status, Status::MISMATCH);
        assert!(refusal.text.contains("with root"), "{}", refusal.text);
        check(table().event_synchronize()(rank.device, good, 20_000_000_000)).expect("the copy went well");
        assert_eq!(target.bytes(), b"ok");
        for event in [bad, good] {
            check(table().event_destroy()(rank.device, event)).expect("destroyed");
        }
        check(table().stream_destroy()(rank.device, stream)).expect("destroyed");
    });
}

#[test]
fn local_arithmetic_follows_the_descriptor() {
    let device = open(&[]);
    let floats =
        |values: &[f32]| Guarded::with(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
    let (a, b) = (floats(&[1.0, 2.0, 3.0]), floats(&[10.0, 20.0, 30.0]));
    let mut dst = Guarded::new(12);
    let inputs = [a.ptr(), b.ptr()];
    let reduction = ReduceDesc {
        dtype: DType::FLOAT32,
        op: RedOp::SUM,
        dst: dst.ptr_mut(),
        inputs: inputs.as_ptr(),
        input_count: 2,
        count: 3,
        pre_mask: 0b10,
        pre_bits: 0.5_f64.to_bits(),
        post_bits: 3.0_f64.to_bits(),
        reserved: [0; 2],
    };
    check(table().reduce()(device, 0, &reduction, 1)).expect("reduced");
    assert!(dst.bytes() == floats(&[18.0, 36.0, 54.0]).bytes());
    let scaling = ScaleDesc {
        dtype: DType::FLOAT32,
        flags: 0,
        dst: dst.ptr_mut(),
        src: dst.ptr(),
        count: 3,
        factor_bits: 0.5_f64.to_bits(),
        reserved: [0; 2],
    };
    check(table().scale()(device, 0, &scaling, 1)).expect("scaled");
    assert!(dst.bytes() == floats(&[9.0, 18.0, 27.0]).bytes());
    let refused = [
        table().reduce()(
            device,
            0,
            &ReduceDesc {
                op: RedOp::AVG,
                ..reduction
            },
            1,
        ),
        table().reduce()(
            device,
            0,
            &ReduceDesc {
                dtype: DType(99),
                ..reduction
            },
            1,
        ),
        table().scale()(
            device,
            0,
            &ScaleDesc {
                dtype: DType::INT32,
                ..scaling
            },
            1,
        ),
    ];
    assert_eq!(refused, [Status::UNSUPPORTED; 3]);
    assert_eq!(
        table().reduce()(
            device,
            0,
            &ReduceDesc {
                input_count: 0,
                ..reduction
            },
            1
        ),
        Status::USAGE
    );
    check(table().device_close()(device)).expect("closed");
}

#[test]
fn memory_has_an_identity_until_it_is_freed() {
    let device = open(&[]);
    let (mut ptr, mut info) = (std::ptr::null_mut(), MemInfo::default());
    check(table().mem_alloc()(device, MemKind::PINNED, 1 << 20, &mut ptr)).expect("memory");
    assert_eq!(ptr.addr() % 256, 0);
    check(table().mem_classify()(device, ptr.wrapping_add(100), &mut info)).expect("known");
    assert_eq!((info.base, info.len), (ptr.addr() as u64, 1 << 20));
    assert_ne!(info.allocation_id, 0);
    check(table().mem_free()(device, MemKind::PINNED, ptr)).expect("freed");
    assert_eq!(table().mem_free()(device, MemKind::PINNED, ptr), Status::USAGE);
    check(table().device_close()(device)).expect("closed");
}

#[test]
fn attributes_and_capabilities_are_told() {
    let mut rows = Rows::new();
    let sink: PropertySink = rows.sink();
    check(table().device_attributes()(0, sink)).expect("attributes");
    for key in [
        device_attr::NAME,
        device_attr::BUS_ID,
        device_attr::ARCH,
        device_attr::ISLAND,
    ] {
        assert!(rows.get(key).is_some_and(|value| !value.is_empty()), "{key}");
    }
    assert_eq!(
        (rows.get(device_attr::HOST_ACCESS), rows.get(device_attr::HOLD)),
        (Some("1"), Some("1"))
    );
    assert_eq!(table().device_attributes()(1, sink), Status::USAGE);
    let counts = ranks(1, |rank| {
        let (mut count, mut few) = (0, 0);
        check(table().comm_caps()(
            rank.comm,
            std::ptr::null_mut(),
            0,
            &mut count,
        ))
        .expect("count");
        let mut caps: Vec<CapRow> = Vec::with_capacity(2);
        check(table().comm_caps()(rank.comm, caps.as_mut_ptr(), 2, &mut few)).expect("rows");
        // SAFETY: two rows were written, since there are more.
        unsafe { caps.set_len(2) };
        assert!(caps.iter().all(|row| row.collective == Collective::ALL_REDUCE));
        (count, few)
    });
    assert!(counts[0].0 > 13 && counts[0].0 == counts[0].1);
}
