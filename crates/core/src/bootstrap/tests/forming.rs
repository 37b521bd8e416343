//! Worlds that form, late roots, missing and impossible ranks, port ranges, two jobs at one address.

use super::*;
use crate::ErrorKind;
use crate::bootstrap::rendezvous::serve;

/// An id for `address` that some process will serve later.
fn id_at(address: SocketAddr, key: u8) -> UniqueId {
    UniqueId::new(&Key::from_bytes([key; 32]), 7, &[address])
}

#[test]
fn worlds_of_any_size_form_exchange_and_end() {
    for size in [1u32, 2, 5, 17, 40] {
        let id = new_id();
        let results = each_rank(0..size, move |rank| {
            let plane = join(id, rank, size, &settings()).unwrap();
            assert_eq!((plane.rank(), plane.size()), (rank, size));
            assert_eq!(plane.members().len(), usize::try_from(size).unwrap());
            for round in 0..3 {
                let records = plane.allgather("test", &blob(rank, round), soon()).unwrap();
                let expected: Vec<_> = (0..size).map(|r| blob(r, round)).collect();
                assert_eq!(records, expected, "round {round} at rank {rank} of {size}");
            }
            plane.barrier("end", soon()).unwrap();
            let key = plane.key();
            let state = Arc::clone(&plane.state);
            plane.close(soon());
            assert!(
                size == 1 || state.read(|board| board.ended),
                "rank {rank} of {size} ended in order"
            );
            assert_eq!(state.failure(), None);
            key
        });
        let keys = collect(&results, usize::try_from(size).unwrap());
        assert!(keys.iter().all(|(_, key)| *key == keys[0].1), "one key for all");
    }
}

#[test]
fn large_records_and_one_too_large() {
    let id = new_id();
    let results = each_rank(0..3, move |rank| {
        let plane = join(id, rank, 3, &settings()).unwrap();
        let mine = vec![u8::try_from(rank).unwrap(); 1 << 20];
        let records = plane.allgather("large", &mine, soon()).unwrap();
        assert!(
            records
                .iter()
                .zip(0u8..)
                .all(|(record, r)| record.len() == 1 << 20 && record.iter().all(|b| *b == r))
        );
        let error = plane
            .allgather("too large", &vec![0; (1 << 20) + 1], soon())
            .unwrap_err();
        assert!(error.message().contains("1048577"), "{error}");
        plane.barrier("still usable", soon()).unwrap();
        plane.close(soon());
    });
    collect(&results, 3);
}

#[test]
fn ranks_wait_for_a_root_that_comes_last() {
    let address = free_address();
    let id = id_at(address, 3);
    let results = each_rank(1..6, move |rank| {
        join(id, rank, 6, &settings()).map(|plane| plane.close(soon()))
    });
    thread::sleep(Duration::from_millis(300));
    serve(&id, listen(&[address], None).unwrap()).unwrap();
    join(id, 0, 6, &settings()).unwrap().close(soon());
    collect(&results, 5)
        .into_iter()
        .for_each(|(_, result)| result.unwrap());
}

#[test]
fn a_root_that_never_comes_is_named_with_each_candidate() {
    let first = free_address();
    let second: SocketAddr = "127.0.0.2:9".parse().unwrap();
    let id = UniqueId::new(&Key::from_bytes([1; 32]), 7, &[first, second]);
    let error = join(id, 1, 2, &impatient(Duration::from_millis(300)))
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(
        error.message().contains(&first.to_string()) && error.message().contains("127.0.0.2:9"),
        "{error}"
    );
    assert!(error.message().contains("refused"), "{error}");
}

#[test]
fn missing_ranks_are_named_by_those_that_waited() {
    let id = new_id();
    let results = each_rank([0, 1, 4], move |rank| {
        join(id, rank, 6, &impatient(Duration::from_millis(1500))).map(|_| ())
    });
    for (rank, result) in collect(&results, 3) {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "rank {rank}: {error}");
        assert!(
            error.message().contains("3 of 6 ranks arrived; missing 2, 3, 5"),
            "rank {rank}: {error}"
        );
    }
    let late = join(id, 2, 6, &settings()).map(|_| ()).unwrap_err();
    assert!(
        late.message().contains("missing 2, 3, 5"),
        "a late rank hears why: {late}"
    );
}

#[test]
fn impossible_and_contradictory_claims_are_refused_and_the_job_forms() {
    let id = new_id();
    assert_eq!(
        join(id, 2, 2, &settings()).map(|_| ()).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        join(id, 0, 0, &settings()).map(|_| ()).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    let _puppet = Puppet::arrive(id, 2, 4);
    let twice = join(id, 2, 4, &settings()).map(|_| ()).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Remote);
    assert!(twice.message().contains("rank 2 has arrived already"), "{twice}");
    let other = join(id, 1, 5, &settings()).map(|_| ()).unwrap_err();
    assert!(
        other.message().contains("has 5 ranks") && other.message().contains("says 4"),
        "{other}"
    );

    let id = new_id();
    for (rank, size) in [(7, 4), (0, u32::MAX), (3, 0)] {
        let dial = Dial {
            candidates: &id.addresses(),
            key: &id.handshake_key(),
            purpose: Purpose::Arrive,
            claim: Claim {
                rank,
                size,
                target: 0,
            },
            deadline: soon(),
        };
        let error = dial.connect(&mut || Ok(())).map(|_| ()).unwrap_err();
        assert!(error.message().contains("not possible"), "{error}");
    }
    let results = each_rank(0..2, move |rank| {
        join(id, rank, 2, &settings()).map(|plane| plane.close(soon()))
    });
    collect(&results, 2)
        .into_iter()
        .for_each(|(_, result)| result.unwrap());
}

#[test]
fn a_wrong_key_is_named_and_does_not_stop_the_job() {
    let address = free_address();
    let (right, wrong) = (id_at(address, 1), id_at(address, 2));
    serve(&right, listen(&[address], None).unwrap()).unwrap();
    let error = join(wrong, 1, 2, &impatient(Duration::from_millis(400)))
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.message().contains("INFINICCL_SECRET"), "{error}");
    let results = each_rank(0..2, move |rank| {
        join(right, rank, 2, &settings()).map(|plane| plane.close(soon()))
    });
    collect(&results, 2)
        .into_iter()
        .for_each(|(_, result)| result.unwrap());
}

#[test]
fn of_two_jobs_at_one_address_one_fails_cleanly() {
    let address = free_address();
    let (first, second) = (id_at(address, 1), id_at(address, 2));
    serve(&first, listen(&[address], None).unwrap()).unwrap();
    let error = listen(&[address], None).unwrap_err();
    assert!(error.message().contains(&address.to_string()), "{error}");
    let strays = each_rank(1..3, move |rank| {
        join(second, rank, 3, &impatient(Duration::from_millis(500))).map(|_| ())
    });
    let results = each_rank(0..3, move |rank| {
        join(first, rank, 3, &settings()).map(|plane| plane.close(soon()))
    });
    collect(&results, 3)
        .into_iter()
        .for_each(|(_, result)| result.unwrap());
    collect(&strays, 2)
        .into_iter()
        .for_each(|(_, result)| assert!(result.is_err()));
}

#[test]
fn a_used_id_is_refused() {
    let id = new_id();
    let results = each_rank(0..2, move |rank| join(id, rank, 2, &settings()).unwrap());
    let planes = collect(&results, 2);
    let error = join(id, 1, 2, &impatient(Duration::from_millis(300)))
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.kind() == ErrorKind::Timeout || error.message().contains("complete already"),
        "{error}"
    );
    planes
        .iter()
        .for_each(|(_, plane)| plane.barrier("undisturbed", Instant::now()).unwrap_or_default());
}

#[test]
fn all_listeners_stay_inside_the_port_range() {
    let start = free_address().port().min(65000);
    let settings = Settings {
        port_range: Some(start..=start + 40),
        ..settings()
    };
    let id = create_unique_id(&settings, Reach::ThisHost).unwrap();
    assert!(
        id.addresses()
            .iter()
            .all(|address| (start..=start + 40).contains(&address.port()))
    );
    let results = each_rank(0..18, move |rank| {
        let plane = join(id, rank, 18, &settings).unwrap();
        let ports: Vec<u16> = plane
            .members()
            .iter()
            .flat_map(|m| m.addresses.iter().map(|a| a.port()))
            .collect();
        plane.close(soon());
        ports
    });
    for (_, ports) in collect(&results, 18) {
        assert_eq!(ports.len(), 2, "ranks 0 and 1 have children");
        assert!(
            ports.iter().all(|port| (start..=start + 40).contains(port)),
            "{ports:?}"
        );
    }
}

#[test]
fn twenty_jobs_at_once_do_not_mix() {
    let ids: Vec<UniqueId> = (0..20).map(|_| new_id()).collect();
    let results = each_rank(0..40, move |n| {
        let (job, rank) = (n / 2, n % 2);
        let plane = join(ids[usize::try_from(job).unwrap()], rank, 2, &settings()).unwrap();
        let records = plane.allgather("jobs", &job.to_le_bytes(), soon()).unwrap();
        assert_eq!(records, vec![job.to_le_bytes().to_vec(); 2]);
        plane.close(soon());
    });
    collect(&results, 40);
}

#[test]
fn ranks_of_a_communicator_form_another_from_an_offer_that_is_not_secret() {
    let id = new_id();
    let results = each_rank(0..4, move |rank| {
        let plane = join(id, rank, 4, &settings()).unwrap();
        // Ranks 1 and 3 form a communicator, in which 3 is rank 0.
        let mine = if rank == 3 {
            plane.offer().unwrap()
        } else {
            Vec::new()
        };
        let offers = plane.allgather("offers", &mine, soon()).unwrap();
        let offered = plane.offered(&offers[3]).unwrap();
        assert!(
            offered.addresses().iter().all(|a| a.ip().is_loopback()),
            "as the parent communicator does"
        );
        let small = match rank {
            1 | 3 => Some(join(offered, u32::from(rank == 1), 2, &settings()).unwrap()),
            _ => None,
        };
        if let Some(small) = &small {
            assert_ne!(small.key(), plane.key());
            small.barrier("both", soon()).unwrap();
            small.close(soon());
        }
        assert!(plane.offered(&offers[3][1..]).is_err() && plane.offered(&[]).is_err());
        // Without the key of the parent, the offer opens nothing.
        let other = UniqueId::new(&Key::from_bytes([0; 32]), offered.nonce(), &offered.addresses());
        assert_ne!(other.handshake_key().bytes(), offered.handshake_key().bytes());
        plane.close(soon());
    });
    collect(&results, 4);
}
