//! Ids for communicators of some ranks of one that exists: what travels between them is not secret.

use super::control::ControlPlane;
use super::keys::random_bytes;
use super::listen::{bound_addresses, listen};
use super::rendezvous::{Reach, own_addresses, serve};
use super::unique_id::{UniqueId, decode_address, encode_address};
use super::wire::{Malformed, Reader, Writer, put_list};
use crate::{Error, ErrorKind, Result};

impl ControlPlane {
    /// Offers a new communicator to ranks of this one: this process waits for them from now on. The offer holds addresses
    /// and a nonce; the key of the new communicator follows from them and this one's key, which every rank has.
    ///
    /// # Errors
    /// Those of listening on this host's addresses.
    pub(crate) fn offer(&self) -> Result<Vec<u8>> {
        let addresses = own_addresses(self.settings(), Reach::AnyHost, self.local_ip())?;
        let listeners = listen(&addresses, self.settings().port_range.as_ref())?;
        let nonce: [u8; 16] = random_bytes()?;
        let mut w = Writer::new();
        w.raw(&nonce);
        put_list(&mut w, &bound_addresses(&listeners), |w, address| {
            w.raw(&encode_address(address));
        });
        let offer = w.finish();
        serve(&self.offered(&offer)?, listeners)?;
        Ok(offer)
    }

    /// The id of the communicator that a rank of this one has offered.
    ///
    /// # Errors
    /// `Internal` when the bytes are no offer.
    pub(crate) fn offered(&self, offer: &[u8]) -> Result<UniqueId> {
        let (nonce, addresses) = read(offer).map_err(|e| {
            Error::new(
                ErrorKind::Internal,
                "a rank offers a communicator in bytes that do not decode",
            )
            .with_source(e)
        })?;
        let key = self.derive_key(&nonce);
        let short = key.mac(&[b"nonce"]);
        let short = u64::from_le_bytes(short[..8].try_into().expect("8 bytes"));
        Ok(UniqueId::new(&key, short, &addresses))
    }
}

fn read(offer: &[u8]) -> std::result::Result<([u8; 16], Vec<std::net::SocketAddr>), Malformed> {
    let mut r = Reader::new(offer);
    let nonce = r.array()?;
    let addresses = r.list(UniqueId::MAX_ADDRESSES, |r| {
        decode_address(&r.array()?)?.ok_or(Malformed("an empty address in an offer"))
    })?;
    r.end()?;
    Ok((nonce, addresses))
}
