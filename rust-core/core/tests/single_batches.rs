//! Tests one server that lies about a batch in which a query uses the slot that the one before it has filled. The answer comes
//! after the database has changed and the client was restarted. It is refused, whichever parity is wrong. No hint or backup is
//! ever shown twice.

mod common;

use common::database;
use keyhush_core::commitment::Merkle;
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::layout::Layout;
use keyhush_core::random::ChaCha;
use keyhush_core::scheme::{Asked, Verdict};
use keyhush_core::single::hint::Hint;
use keyhush_core::single::making::Builder;
use keyhush_core::suites::answer;

const BINDING: [u8; 32] = [7; 32];
const SUITE: u16 = 3;

type Client = Asked<Merkle, Hint>;

fn layout() -> Layout {
    Layout::new(700, 3, 2, 350).unwrap()
}

fn server() -> Database<Merkle> {
    let mut content = vec![0; 2100];
    ChaCha::new(&[6; 32], 9).fill(&mut content);
    database(layout(), &content)
}

fn client(database: &Database<Merkle>, lookups: usize) -> Client {
    let hashes = database.content_hashes().unwrap();
    let mut builder = Builder::new(layout(), &hashes, lookups, [5; 32]).unwrap();
    for q in 0..2 {
        builder.begin(0, q).unwrap();
        builder.lane_bytes(0).unwrap().copy_from_slice(database.partition(q).unwrap());
        builder.absorb(0, 1050).unwrap();
        assert!(builder.keep(0).unwrap());
    }
    Asked::new(builder.finish_at(0).map_err(|(error, _)| error).unwrap())
}

fn reopened(stored: &[u8]) -> Client {
    Asked::new(Hint::decode(stored, layout(), &BINDING).unwrap())
}

#[test]
fn a_lie_about_a_slot_that_its_own_batch_has_filled_is_refused_across_an_update_and_a_restart() {
    for index in [0, 17, 349, 699] {
        let mut database = server();
        let mut client = client(&database, 6);
        let stored = client.encode(&BINDING).unwrap();
        // The second query uses what the first has left, and the third what the second has left.
        let batch = [index, index, (index + 7) % 700, index];
        client.query(&batch, &[index as u8; 32]).unwrap();
        let (pending, request) = (client.pending_bytes().unwrap(), client.request(0).unwrap());
        // Asks for the record, and for another of its stripe.
        let stripe = index - index % 16;
        let edited: std::collections::BTreeSet<u32> = (stripe..stripe + 12).chain([index, (index + 7) % 700]).collect();
        let operations: Vec<_> = edited.into_iter().map(|at| (at, [at as u8; 3])).collect();
        let operations: Vec<_> = operations.iter().map(|(at, record)| Operation::EditIndex(*at, record)).collect();
        let epoch = apply(&mut database, None, &operations).unwrap();
        let moved_on = || {
            let mut again = reopened(&stored);
            again.resume(&pending).unwrap();
            again.update(epoch.list.bytes(), layout(), &[], &[0; 32]).unwrap();
            assert_eq!(again.request(0).unwrap(), request);
            again
        };
        let genuine = answer(SUITE, &database, &request, At::Newest).unwrap();
        for byte in 0..genuine.len() {
            let mut reply = genuine.clone();
            reply[byte] ^= 1 << (byte % 8);
            assert_eq!(moved_on().verify(0, &reply), Ok(Verdict::Forged), "index {index}, byte {byte}");
        }
        // The same difference in both parities, or in two queries, does not cancel out.
        for (one, other) in [(0, 3), (3, 6), (0, 6), (1, 19)] {
            let mut reply = genuine.clone();
            reply[one] ^= 0x40;
            reply[other] ^= 0x40;
            assert_eq!(moved_on().verify(0, &reply), Ok(Verdict::Forged));
        }
        let mut client = moved_on();
        assert_eq!(client.verify(0, &genuine), Ok(Verdict::Genuine));
        let expected: Vec<u8> = batch.iter().flat_map(|&at| database.record(at as usize).unwrap().to_vec()).collect();
        assert_eq!((client.recon().unwrap(), client.missed()), (expected, 0));
        assert!(client.state.hazmat_agrees_with(&mut |slot| database.record(slot).unwrap().to_vec()));
    }
}

/// A hint or backup shown twice would have the same offsets in all but a few of the 44 stripes. Other hints agree in about three of
/// them: one in 16.
#[test]
fn nothing_is_shown_twice_whatever_is_asked_between_updates_and_restarts() {
    let mut database = server();
    let mut client = client(&database, 240);
    let mut shown: Vec<Vec<u8>> = Vec::new();
    for round in 0..60u32 {
        let batch = [round % 3, 5, round * 11, 5];
        client.query(&batch, &[round as u8; 32]).unwrap();
        if round % 4 == 1 {
            let epoch = apply(&mut database, None, &[Operation::EditIndex(round, &[round as u8; 3])]).unwrap();
            client.update(epoch.list.bytes(), layout(), &[], &[0; 32]).unwrap();
        }
        let request = client.request(0).unwrap();
        let reply = answer(SUITE, &database, &request, At::Newest).unwrap();
        assert_eq!(client.verify(0, &reply), Ok(Verdict::Genuine));
        client.recon().unwrap();
        let (each, stripes) = (client.state.geometry().query_bytes(), client.state.geometry().stripes());
        assert_eq!((stripes, client.state.geometry().stripe_records()), (44, 16));
        for query in request.chunks_exact(each) {
            let offsets: Vec<u8> = query[each - 2 * stripes..].chunks_exact(2).map(|offset| offset[0]).collect();
            for before in &shown {
                let equal = before.iter().zip(&offsets).filter(|(one, other)| one == other).count();
                assert!(equal < 22, "round {round}: {equal}");
            }
            shown.push(offsets);
        }
        if round % 5 == 0 {
            client = reopened(&client.encode(&BINDING).unwrap());
        }
    }
    assert_eq!(client.state.left(), 0);
}
