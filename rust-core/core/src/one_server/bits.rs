//! Numbers of a few bits, one after the other, the lowest bit first.

/// Appends `bits` bits of each number, below 2^56. Zeros fill the last byte.
pub(super) fn pack(numbers: impl IntoIterator<Item = u64>, bits: u32, into: &mut Vec<u8>) {
    let (mut held, mut count) = (0u64, 0);
    for number in numbers {
        held |= number << count;
        count += bits;
        while count >= 8 {
            into.push(held as u8);
            held >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        into.push(held as u8);
    }
}

/// The numbers that [`pack`] wrote.
pub(super) fn unpack(bytes: &[u8], bits: u32) -> impl Iterator<Item = u64> {
    let mut bytes = bytes.iter();
    let (mut held, mut count) = (0u64, 0);
    std::iter::from_fn(move || {
        while count < bits {
            held |= u64::from(*bytes.next()?) << count;
            count += 8;
        }
        let number = held & ((1 << bits) - 1);
        held >>= bits;
        count -= bits;
        Some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_comes_back() {
        for bits in [1, 7, 8, 20, 40, 41, 42, 48, 56] {
            let numbers: Vec<u64> = (0..29u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)).collect();
            let mut bytes = Vec::new();
            pack(numbers.iter().copied(), bits, &mut bytes);
            assert_eq!(bytes.len(), (29 * bits as usize).div_ceil(8));
            assert_eq!(unpack(&bytes, bits).take(29).collect::<Vec<_>>(), numbers, "{bits} bits");
        }
    }
}
