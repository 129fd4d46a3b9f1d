//! SinglePass (Lazzaretti, Papamanthou: *Single Pass Client-Preprocessing Private Information Retrieval*, 2024), Fig. 4,
//! and its updates, Fig. 7. TAPIR is this scheme with authentication.
//!
//! N records are Q partitions of M = ⌈N/Q⌉. The hint is a permutation p_q of [M] for each partition, and M parities. Parity j
//! is the XOR of the records p_0(j), …, p_{Q−1}(j).
//!
//! A lookup of record m of partition q* shows server 1 a column of offsets, with a random one in place q*. It shows server 0 a
//! random entry of each permutation. Then it swaps the entries shown to server 1 with those shown to server 0 (*Show and
//! Shuffle*, Fig. 3). After that all permutations are uniform again from server 1's view.
//!
//! # Assumption
//!
//! The two servers do not talk to each other, and answer honestly. With uniform permutations, privacy is then perfect against
//! either server alone, for adaptive sequences of lookups. With permutations from a seed it rests on the generator. Server 0
//! made the hint, knows all permutations, and can read the positions r_q from the first request. It does not learn the column:
//! it sees uniform offsets only, whatever is asked.
//!
//! # Corrections
//!
//! Fig. 4 sends S_refresh before the swap and reads both answers after it. Here the swap is in [`Client::query`], as printed. The
//! text leaves these points open:
//!
//! - Server and client exchange the seed, not the permutations (the authors' code sends all of them: 8 MiB at 2^20).
//! - Offsets at or beyond M are refused, and records beyond N are zeros, as §6 proposes for the last partition.
//! - An update has old ⊕ new, which is all that Fig. 7 uses.
//!
//! # What an attacker gains
//!
//! From the scheme as printed, with honest servers: nothing. But the client cannot recognise a wrong parity or answer. A server
//! that changes the record of one offset can learn, from what the app does with a wrong record, whether that partition was
//! asked for. TAPIR's proofs prevent this. Each [`Deviation`] but the last breaks the Show-and-Shuffle lemma;
//! `tests/singlepass.rs` enumerates by how much.
//!
//! # A lookup
//!
//! ```
//! use papers::{channel::Channel, prg::Aes, random::Random, records::Records, singlepass::*};
//!
//! let mut source = Random::from_system()?;
//! let mut server = Server::new(Records::from_seed(1, 1000, 32), 10)?; // N = 1000, ℓ = 32, Q = 10
//!
//! // Offline: server 0 makes the hint.
//! let hint = server.hint::<Aes, u16>(&source.block());
//! let mut client = Client::<u16>::new::<Aes>(&hint, 1000, 10, 32, Inverses::Kept)?;
//!
//! // Online: both servers answer; here one server is both.
//! let mut channels = [Channel::default(); 2];
//! let record = client.lookup(123, &mut source, [&server, &server], &mut channels)?;
//! assert_eq!(record, server.records().get(123));
//! assert_eq!(channels[0], Channel { up: 10 * 2, down: 10 * 32 });
//!
//! // The database changes, and the client updates its hint.
//! client.follow(&server.edit(123, &[7; 32])?, &mut source)?;
//! assert_eq!(client.lookup(123, &mut source, [&server, &server], &mut channels)?, [7; 32]);
//! # Ok::<(), papers::error::Error>(())
//! ```

use crate::channel::Channel;
use crate::error::{Error, bad, expect_bytes};
use crate::prg::{Block, Prg};
use crate::random::{Random, Uniform, shuffle};
use crate::records::Records;
use crate::xor::xor;

/// Mistakes that only tests make.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// As printed.
    #[default]
    None,
    /// The shown entries are not swapped: a second lookup in the same column is recognised.
    NoSwap,
    /// One position r for all partitions instead of Q: refreshed columns stay together.
    OnePosition,
    /// The random offset in the queried partition is never the wanted one: this excludes what is asked for.
    CoverAvoidsQueried,
    /// The queried partition is swapped too, though its true entry was not shown. This reveals nothing, but makes parities wrong.
    SwapsQueried,
}

/// An offset in a partition, as stored and sent: u16, or u32 for M > 2^16.
pub trait Offset: Copy + Eq + Send + 'static {
    /// its bytes
    const BYTES: usize;
    /// Converts a number that fits.
    fn of(offset: usize) -> Self;
    /// The offset as a number.
    fn get(self) -> usize;
}

impl Offset for u16 {
    const BYTES: usize = 2;
    fn of(offset: usize) -> Self {
        offset as u16
    }
    fn get(self) -> usize {
        usize::from(self)
    }
}

impl Offset for u32 {
    const BYTES: usize = 4;
    fn of(offset: usize) -> Self {
        offset as u32
    }
    fn get(self) -> usize {
        self as usize
    }
}

/// Bytes of a hint as sent: its seed and M parities.
pub fn hint_bytes(partition_records: usize, record_bytes: usize) -> usize {
    16 + partition_records * record_bytes
}

/// Bytes of a lookup, with both servers, in both directions: 2·Q offsets and 2·Q records.
pub fn lookup_bytes<O: Offset>(partitions: usize, record_bytes: usize) -> usize {
    2 * partitions * (O::BYTES + record_bytes)
}

/// Bytes of an edit: index, and old ⊕ new.
pub fn edit_bytes(record_bytes: usize) -> usize {
    4 + record_bytes
}

/// Either server: the database, and its M.
pub struct Server {
    records: Records,
    partition_records: usize,
}

/// An update for clients, after an edit or an added record: the public index, and old ⊕ new. For an added record old is
/// zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// i
    pub index: usize,
    /// old ⊕ new, ℓ bytes
    pub difference: Vec<u8>,
}

impl Server {
    /// A server of these records in `partitions` partitions.
    pub fn new(records: Records, partitions: usize) -> Result<Self, Error> {
        if partitions == 0 || partitions > records.len() {
            return Err(bad("partitions", format_args!("1 to {}", records.len()), partitions));
        }
        let partition_records = records.len().div_ceil(partitions);
        Ok(Server { records, partition_records })
    }

    /// The current database.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// M
    pub fn partition_records(&self) -> usize {
        self.partition_records
    }

    /// Q, at present
    pub fn partitions(&self) -> usize {
        self.records.len().div_ceil(self.partition_records)
    }

    /// Fig. 4, Hint: a seed for the permutations, and M parities. One pass over the records.
    pub fn hint<P: Prg, O: Offset>(&self, seed: &Block) -> Vec<u8> {
        let (m, bytes) = (self.partition_records, self.records.record_bytes());
        let mut message = seed.to_vec();
        message.resize(hint_bytes(m, bytes), 0);
        let parities = &mut message[16..];
        let mut permutation = vec![O::of(0); m];
        for q in 0..self.partitions() {
            draw::<O>(&mut permutation, &mut Random::<P>::new(seed, q as u64)); // Hint 1
            let here = m.min(self.records.len() - q * m);
            let partition = self.records.range(q * m, q * m + here);
            for (&entry, parity) in permutation.iter().zip(parities.chunks_exact_mut(bytes)) {
                if entry.get() < here {
                    xor(parity, &partition[entry.get() * bytes..][..bytes]); // Hint 2
                }
            }
        }
        message
    }

    /// Fig. 4, Answer: the record at each offset, one for each partition; zeros beyond the last record.
    pub fn answer<O: Offset>(&self, request: &[u8]) -> Result<Vec<u8>, Error> {
        expect_bytes("offsets", request, self.partitions() * O::BYTES)?;
        let (m, bytes) = (self.partition_records, self.records.record_bytes());
        let mut answer = vec![0; self.partitions() * bytes];
        for ((q, offset), record) in offsets::<O>(request).enumerate().zip(answer.chunks_exact_mut(bytes)) {
            if offset >= m {
                return Err(bad("offset", format_args!("below {m}"), offset));
            }
            if q * m + offset < self.records.len() {
                record.copy_from_slice(self.records.get(q * m + offset));
            }
        }
        Ok(answer)
    }

    /// Replaces a record. A deletion is an edit to zeros.
    pub fn edit(&mut self, index: usize, record: &[u8]) -> Result<Update, Error> {
        expect_bytes("record", record, self.records.record_bytes())?;
        if index >= self.records.len() {
            return Err(bad("index", format_args!("below {}", self.records.len()), index));
        }
        let mut difference = record.to_vec();
        xor(&mut difference, self.records.get(index));
        self.records.get_mut(index).copy_from_slice(record);
        Ok(Update { index, difference })
    }

    /// Adds a record at the end. It begins a new partition if the last one is full.
    pub fn add(&mut self, record: &[u8]) -> Result<Update, Error> {
        expect_bytes("record", record, self.records.record_bytes())?;
        self.records.push(record);
        Ok(Update { index: self.records.len() - 1, difference: record.to_vec() })
    }
}

/// Makes `entries` a uniform permutation of [M].
fn draw<O: Offset>(entries: &mut [O], source: &mut impl Uniform) {
    for (j, entry) in entries.iter_mut().enumerate() {
        *entry = O::of(j);
    }
    shuffle(entries, source);
}

fn offsets<O: Offset>(message: &[u8]) -> impl Iterator<Item = usize> {
    message.chunks_exact(O::BYTES).map(|bytes| {
        let mut wide = [0; 8];
        wide[..O::BYTES].copy_from_slice(bytes);
        u64::from_le_bytes(wide) as usize
    })
}

/// Whether inverses are stored. They give a column at once, and take as much memory as the permutations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inverses {
    /// O(1) for a lookup and an edit.
    Kept,
    /// A scan of M entries for a lookup and an edit.
    Scanned,
}

/// The permutations p_0, …, p_{Q−1}, in one array: entry q·M + j is p_q(j).
#[derive(Clone)]
pub struct Permutations<O> {
    entries: Vec<O>,
    inverse: Option<Vec<O>>,
    partition_records: usize,
}

impl<O: Offset> Permutations<O> {
    /// Q permutations, each from a source of its own.
    fn draw<U: Uniform>(
        partitions: usize,
        partition_records: usize,
        inverses: Inverses,
        mut source: impl FnMut(usize) -> U,
    ) -> Self {
        let mut entries = vec![O::of(0); partitions * partition_records];
        for (q, entries) in entries.chunks_exact_mut(partition_records).enumerate() {
            draw(entries, &mut source(q));
        }
        Self::from_entries(entries, partition_records, inverses)
    }

    /// Permutations from Q·M entries, for tests that enumerate.
    pub fn from_entries(entries: Vec<O>, partition_records: usize, inverses: Inverses) -> Self {
        let mut all = Permutations { entries, inverse: None, partition_records };
        if inverses == Inverses::Kept {
            all.inverse = Some(vec![O::of(0); all.entries.len()]);
            (0..all.entries.len() / partition_records).for_each(|q| all.invert(q));
        }
        all
    }

    /// p_q(j)
    fn at(&self, q: usize, j: usize) -> O {
        self.entries[q * self.partition_records + j]
    }

    /// The column j with p_q(j) = `offset`.
    fn column(&self, q: usize, offset: usize) -> usize {
        let (from, offset) = (q * self.partition_records, O::of(offset));
        if let Some(inverse) = &self.inverse {
            return inverse[from + offset.get()].get();
        }
        let entries = &self.entries[from..from + self.partition_records];
        entries.iter().position(|&entry| entry == offset).expect("a permutation has every offset")
    }

    fn swap(&mut self, q: usize, a: usize, b: usize) {
        let from = q * self.partition_records;
        self.entries.swap(from + a, from + b);
        if let Some(inverse) = &mut self.inverse {
            for j in [a, b] {
                inverse[from + self.entries[from + j].get()] = O::of(j);
            }
        }
    }

    fn invert(&mut self, q: usize) {
        let from = q * self.partition_records;
        if let Some(inverse) = &mut self.inverse {
            for (j, entry) in self.entries[from..from + self.partition_records].iter().enumerate() {
                inverse[from + entry.get()] = O::of(j);
            }
        }
    }

    fn push(&mut self, source: &mut impl Uniform) {
        let from = self.entries.len();
        self.entries.resize(from + self.partition_records, O::of(0));
        draw(&mut self.entries[from..], source);
        if let Some(inverse) = &mut self.inverse {
            inverse.resize(self.entries.len(), O::of(0));
        }
        self.invert(from / self.partition_records);
    }
}

/// The client and its hint.
pub struct Client<O: Offset> {
    permutations: Permutations<O>,
    parities: Vec<u8>,
    record_bytes: usize,
    records: usize,
    deviation: Deviation,
}

/// A lookup between Query and Reconstruct. It can be finished once.
pub struct Pending {
    partition: usize,
    column: usize,
    positions: Vec<usize>,
    /// for server 0, which made the hint
    pub refresh: Vec<u8>,
    /// for server 1
    pub retrieve: Vec<u8>,
}

impl<O: Offset> Client<O> {
    /// Reads the hint of a database of `records` records in `partitions` partitions.
    pub fn new<P: Prg>(
        message: &[u8],
        records: usize,
        partitions: usize,
        record_bytes: usize,
        inverses: Inverses,
    ) -> Result<Self, Error> {
        if partitions == 0 || partitions > records {
            return Err(bad("partitions", format_args!("1 to {records}"), partitions));
        }
        let partition_records = records.div_ceil(partitions);
        if partition_records > 1 << (8 * O::BYTES) {
            return Err(bad("M", format_args!("at most 2^{}", 8 * O::BYTES), partition_records));
        }
        expect_bytes("hint", message, hint_bytes(partition_records, record_bytes))?;
        let (seed, parities) = message.split_first_chunk().expect("checked above");
        let partitions = records.div_ceil(partition_records);
        let permutations =
            Permutations::draw(partitions, partition_records, inverses, |q| Random::<P>::new(seed, q as u64));
        Ok(Self::from_parts(permutations, parities.to_vec(), records, record_bytes, Deviation::None))
    }

    /// A client from permutations and parities, for tests that enumerate permutations.
    pub fn from_parts(
        permutations: Permutations<O>,
        parities: Vec<u8>,
        records: usize,
        record_bytes: usize,
        deviation: Deviation,
    ) -> Self {
        Client { permutations, parities, record_bytes, records, deviation }
    }

    /// This client with a mistake, for tests.
    #[must_use]
    pub fn with_deviation(self, deviation: Deviation) -> Self {
        Client { deviation, ..self }
    }

    /// Bytes of permutations, of inverses if they are stored, and of parities.
    pub fn bytes(&self) -> usize {
        let inverses = self.permutations.inverse.as_ref().map_or(0, Vec::len);
        (self.permutations.entries.len() + inverses) * O::BYTES + self.parities.len()
    }

    fn partitions(&self) -> usize {
        self.permutations.entries.len() / self.permutations.partition_records
    }

    /// Fig. 4, Query.
    pub fn query(&mut self, index: usize, source: &mut impl Uniform) -> Result<Pending, Error> {
        if index >= self.records {
            return Err(bad("index", format_args!("below {}", self.records), index));
        }
        let m = self.permutations.partition_records;
        let (partition, offset) = (index / m, index % m);
        let column = self.permutations.column(partition, offset); // Query 1
        let cover = match self.deviation {
            Deviation::CoverAvoidsQueried => (offset + 1 + source.below(m as u32 - 1) as usize) % m,
            _ => source.below(m as u32) as usize,
        };
        let positions: Vec<usize> = match self.deviation {
            Deviation::OnePosition => vec![source.below(m as u32) as usize; self.partitions()],
            _ => (0..self.partitions()).map(|_| source.below(m as u32) as usize).collect(), // Query 3
        };
        let mut refresh = Vec::with_capacity(self.partitions() * O::BYTES);
        let mut retrieve = Vec::with_capacity(self.partitions() * O::BYTES);
        for (q, &position) in positions.iter().enumerate() {
            let entry = if q == partition { O::of(cover) } else { self.permutations.at(q, column) };
            retrieve.extend_from_slice(&entry.get().to_le_bytes()[..O::BYTES]); // Query 2
            refresh.extend_from_slice(&self.permutations.at(q, position).get().to_le_bytes()[..O::BYTES]); // Query 4
            if self.swaps(q, partition) {
                self.permutations.swap(q, column, position); // Query 5
            }
        }
        Ok(Pending { partition, column, positions, refresh, retrieve })
    }

    fn swaps(&self, q: usize, queried: usize) -> bool {
        match self.deviation {
            Deviation::NoSwap => false,
            Deviation::SwapsQueried => true,
            _ => q != queried,
        }
    }

    /// Fig. 4, Reconstruct: the record, from the answers of server 0 and server 1.
    pub fn reconstruct(&mut self, pending: &Pending, refresh: &[u8], retrieve: &[u8]) -> Result<Vec<u8>, Error> {
        let bytes = self.record_bytes;
        expect_bytes("server 0's answer", refresh, self.partitions() * bytes)?;
        expect_bytes("server 1's answer", retrieve, self.partitions() * bytes)?;
        let mut record = self.parities[pending.column * bytes..][..bytes].to_vec();
        for (q, shown) in retrieve.chunks_exact(bytes).enumerate() {
            if q != pending.partition {
                xor(&mut record, shown); // Reconstruct 1
            }
        }
        for (q, (shown, unseen)) in retrieve.chunks_exact(bytes).zip(refresh.chunks_exact(bytes)).enumerate() {
            if self.swaps(q, pending.partition) {
                for j in [pending.column, pending.positions[q]] {
                    let parity = &mut self.parities[j * bytes..][..bytes]; // Reconstruct 2
                    xor(parity, shown);
                    xor(parity, unseen);
                }
            }
        }
        Ok(record)
    }

    /// A whole lookup. Servers and channels come in the order of the servers.
    pub fn lookup(
        &mut self,
        index: usize,
        source: &mut impl Uniform,
        servers: [&Server; 2],
        channels: &mut [Channel; 2],
    ) -> Result<Vec<u8>, Error> {
        let pending = self.query(index, source)?;
        let [refresh, retrieve] = channels;
        let refresh = refresh.ask(&pending.refresh, |request| servers[0].answer::<O>(request))?;
        let retrieve = retrieve.ask(&pending.retrieve, |request| servers[1].answer::<O>(request))?;
        self.reconstruct(&pending, &refresh, &retrieve)
    }

    /// Fig. 7: applies an edit or an addition. A new partition gets a permutation from `source`: server 0 would know one from the
    /// hint's seed.
    pub fn follow(&mut self, update: &Update, source: &mut impl Uniform) -> Result<(), Error> {
        expect_bytes("update", &update.difference, self.record_bytes)?;
        if update.index > self.records {
            return Err(bad("update", format_args!("an index up to {}", self.records), update.index));
        }
        let m = self.permutations.partition_records;
        if update.index == self.records {
            if update.index / m == self.partitions() {
                self.permutations.push(source); // Add 2(a), 2(b)
            }
            self.records += 1;
        }
        let column = self.permutations.column(update.index / m, update.index % m); // Edit 1, 2
        xor(&mut self.parities[column * self.record_bytes..][..self.record_bytes], &update.difference); // Edit 3
        Ok(())
    }
}
