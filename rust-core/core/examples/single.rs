//! Measures what lookups with one server cost, natively: `cargo run --release -p keyhush-core --example single -- [log₂ N] [ℓ]`.

use std::time::{Duration, Instant};

use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::layout::Layout;
use keyhush_core::random::ChaCha;
use keyhush_core::scheme::{Asked, Verdict};
use keyhush_core::single::hint::Hint;
use keyhush_core::single::making::{Builder, LOOKUPS};
use keyhush_core::suites::answer;

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let (log, record_bytes) = (arguments.next().unwrap_or(20), arguments.next().unwrap_or(32));
    let layout = Layout::plan(1 << log, record_bytes, None).expect("a layout");
    let mut database = Database::<Merkle>::offering(layout, Proofs::Tags).expect("memory");
    ChaCha::new(&[1; 32], 0).fill(database.records_mut());
    (0..layout.partitions()).for_each(|q| database.commit(q).expect("a partition"));
    let hashes = database.content_hashes().expect("committed");

    let mut builder = Builder::new(layout, &hashes, LOOKUPS, [2; 32]).expect("a geometry");
    let (drawing, ()) = timed(|| while builder.step().expect("memory") {});
    let (mut hashing, mut folding, mut longest) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for q in 0..layout.partitions() {
        builder.begin(0, q).expect("a lane");
        builder.lane_bytes(0).expect("a lane").copy_from_slice(database.partition(q).expect("a partition"));
        hashing += timed(|| {
            builder.absorb(0, layout.partition_bytes()).expect("its length");
            assert!(builder.keep(0).expect("all of it"));
        })
        .0;
        loop {
            let (step, more) = timed(|| builder.step().expect("memory"));
            folding += step;
            longest = longest.max(step);
            if !more {
                break;
            }
        }
    }
    let (partial, _) = timed(|| builder.encode(&[0; 32]).expect("memory"));
    let hint = builder.finish_at(0).map_err(|(error, _)| error).expect("whole");
    println!(
        "cutoffs {drawing:?}, hashing {hashing:?}, folding {folding:?}, longest step {longest:?}, stored {partial:?}"
    );
    println!("hints {} bytes, tags {} bytes", hint.hint_bytes(), hint.tag_bytes());

    let mut asked: Asked<Merkle, Hint> = Asked::new(hint);
    let (mut querying, mut answering, mut finishing) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..200u32 {
        let index = n.wrapping_mul(2_654_435_761) % layout.records() as u32;
        querying.push(timed(|| asked.query(&[index], &[3; 32]).expect("backups")).0);
        let request = asked.request(0).expect("pending");
        let (time, reply) = timed(|| answer(3, &database, &request, At::Newest).expect("genuine"));
        answering.push(time);
        let (time, record) = timed(|| {
            assert_eq!(asked.verify(0, &reply).expect("its length"), Verdict::Genuine);
            asked.recon().expect("genuine")
        });
        finishing.push(time);
        assert_eq!(record, database.record(index as usize).expect("in range"));
    }
    let request = asked.state.geometry().query_bytes();
    println!("query {:?}, answer {:?}, verify and recon {:?}", median(querying), median(answering), median(finishing));
    println!("up {} bytes, down {} bytes", request, asked.state.geometry().answer_bytes());

    let edits: Vec<(u32, Vec<u8>)> = (0..500u32)
        .map(|n| (n.wrapping_mul(40_503_001) % layout.records() as u32, vec![n as u8 + 1; record_bytes as usize]))
        .collect();
    let batch: Vec<_> = edits.iter().map(|(index, record)| Operation::EditIndex(*index, record)).collect();
    let list = apply(&mut database, None, &batch).unwrap_or_else(|refused| panic!("{refused:?}")).list;
    let (updating, _) = timed(|| asked.update(list.bytes(), layout, &[], &[4; 32]).expect("follows"));
    let (encoding, stored) = timed(|| asked.encode(&[0; 32]).expect("whole"));
    let (reopening, _) = timed(|| Hint::decode(&stored, layout, &[0; 32]).expect("stored"));
    println!("500 edits {updating:?}, checkpoint {encoding:?} of {} bytes, reopening {reopening:?}", stored.len());
}
