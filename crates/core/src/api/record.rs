//! What each rank tells the others when a communicator is made, and its form on the wire.

use crate::bootstrap::wire::{Malformed, Reader, Writer, put_list};
use crate::call::Collective;
use crate::capability::Disproof;
use infiniccl_plugin_api as abi;
use infiniccl_plugin_api::CapRow;
use infiniccl_reduce::{DataType, ReduceOp};

/// Grows when plans change, so that ranks with different planners refuse each other.
pub(super) const PLANNER_VERSION: u32 = 1;

const MAX_TEXT: usize = 4096;
const MAX_ROWS: usize = 4096;

/// The first record: where the rank is, and what it works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RankRecord {
    pub(super) planner: u32,
    pub(super) vendor: String,
    pub(super) vendor_version: String,
    pub(super) island: String,
    pub(super) arithmetic: String,
    pub(super) numa: u32,
    pub(super) device: u32,
    pub(super) net: String,
    pub(super) net_address: Vec<u8>,
    /// Keys and values that must be equal on all ranks.
    pub(super) agreed: Vec<(String, String)>,
}

impl RankRecord {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(self.planner);
        for text in [
            &self.vendor,
            &self.vendor_version,
            &self.island,
            &self.arithmetic,
            &self.net,
        ] {
            w.text(text, MAX_TEXT);
        }
        w.u32(self.numa).u32(self.device).bytes(&self.net_address);
        put_list(&mut w, &self.agreed, |w, (key, value)| {
            w.text(key, MAX_TEXT).bytes(value.as_bytes());
        });
        w.finish()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let planner = r.u32()?;
        let mut text = || r.text(MAX_TEXT);
        let (vendor, vendor_version, island) = (text()?, text()?, text()?);
        let (arithmetic, net) = (text()?, text()?);
        let (numa, device) = (r.u32()?, r.u32()?);
        let net_address = r.bytes(256)?.to_vec();
        let agreed = r.list(MAX_ROWS, |r| {
            let key = r.text(MAX_TEXT)?;
            Ok((key, String::from_utf8_lossy(r.bytes(1 << 18)?).into_owned()))
        })?;
        r.end()?;
        let record = RankRecord {
            planner,
            vendor,
            vendor_version,
            island,
            arithmetic,
            numa,
            device,
            net,
            net_address,
            agreed,
        };
        Ok(record)
    }
}

/// What came of the island's communicator on one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IslandRecord {
    /// Why it failed; `None`: it works.
    pub(super) failed: Option<String>,
    pub(super) rows: Vec<CapRow>,
    /// Whether this process has checked the rows before.
    pub(super) checked: bool,
    pub(super) disproved: Vec<Disproof>,
}

impl IslandRecord {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.option(self.failed.as_ref(), |w, why| {
            w.text(why, MAX_TEXT);
        });
        w.u8(u8::from(self.checked));
        put_list(&mut w, &self.rows, |w, row| {
            w.u32(row.collective.0).u32(row.scope.0);
            let words = [
                row.dtype_mask,
                row.op_mask,
                row.mem_mask,
                row.min_ranks,
                row.max_ranks,
                row.min_bytes,
                row.max_bytes,
                row.flags,
                row.alpha_ns,
                row.beta_ps_per_byte,
            ];
            for word in words {
                w.u64(word);
            }
        });
        put_list(&mut w, &self.disproved, |w, d| {
            w.text(d.collective.name(), MAX_TEXT).u32(d.dtype.code());
            w.u32(d.op.map_or(u32::MAX, ReduceOp::code))
                .text(&d.what, MAX_TEXT);
        });
        w.finish()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let failed = r.option(|r| r.text(MAX_TEXT))?;
        let checked = r.u8()? == 1;
        let rows = r.list(MAX_ROWS, |r| {
            Ok(CapRow {
                collective: abi::Collective(r.u32()?),
                scope: abi::Scope(r.u32()?),
                dtype_mask: r.u64()?,
                op_mask: r.u64()?,
                mem_mask: r.u64()?,
                min_ranks: r.u64()?,
                max_ranks: r.u64()?,
                min_bytes: r.u64()?,
                max_bytes: r.u64()?,
                flags: r.u64()?,
                alpha_ns: r.u64()?,
                beta_ps_per_byte: r.u64()?,
                reserved: [0; 2],
            })
        })?;
        let disproved = r.list(MAX_ROWS, |r| {
            let name = r.text(MAX_TEXT)?;
            let unknown = |_| Malformed("a disproof of an unknown case");
            let collective = name
                .parse::<Collective>()
                .map_err(|_| Malformed("an unknown collective"))?;
            let dtype = DataType::try_from(r.u32()?).map_err(unknown)?;
            let op = match r.u32()? {
                u32::MAX => None,
                code => Some(ReduceOp::try_from(code).map_err(unknown)?),
            };
            Ok(Disproof {
                collective,
                dtype,
                op,
                what: r.text(MAX_TEXT)?,
            })
        })?;
        r.end()?;
        Ok(IslandRecord {
            failed,
            rows,
            checked,
            disproved,
        })
    }
}

/// Rows that every rank declared: what one of them lacks, none can count on.
pub(super) fn common_rows(ranks: &[&[CapRow]]) -> Vec<CapRow> {
    let Some((first, others)) = ranks.split_first() else {
        return Vec::new();
    };
    first
        .iter()
        .filter(|row| others.iter().all(|rows| rows.contains(row)))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_wire() {
        let record = RankRecord {
            planner: 7,
            vendor: "host".into(),
            vendor_version: "1.2".into(),
            island: "shm".into(),
            arithmetic: "ieee".into(),
            numa: 1,
            device: 2,
            net: "net-tcp".into(),
            net_address: vec![1, 2, 3],
            agreed: vec![("check".into(), "on".into())],
        };
        let bytes = record.to_bytes();
        assert_eq!(RankRecord::from_bytes(&bytes), Ok(record));
        for cut in 0..bytes.len() {
            assert!(RankRecord::from_bytes(&bytes[..cut]).is_err());
        }
        let row = CapRow {
            collective: abi::Collective::ALL_REDUCE,
            scope: abi::Scope::NODE,
            dtype_mask: 1,
            op_mask: 2,
            mem_mask: 3,
            min_ranks: 4,
            max_ranks: 5,
            min_bytes: 6,
            max_bytes: 7,
            flags: 8,
            alpha_ns: 9,
            beta_ps_per_byte: 10,
            reserved: [0; 2],
        };
        let island = IslandRecord {
            failed: Some("no space".into()),
            rows: vec![row],
            checked: true,
            disproved: vec![Disproof {
                collective: Collective::Reduce,
                dtype: DataType::Int8,
                op: None,
                what: "3".into(),
            }],
        };
        assert_eq!(IslandRecord::from_bytes(&island.to_bytes()), Ok(island));
        assert_eq!(common_rows(&[&[row], &[CapRow { flags: 9, ..row }, row]]), [row]);
        assert!(common_rows(&[&[row], &[]]).is_empty());
    }
}
