//! A network namespace that contains only our sockets.
//!
//! The supervisor leaves the machine's network for a new one in which every address is loopback. A program
//! that connects to another host reaches one of our sockets, or is refused at once. Name lookups reach us as
//! well, whatever name server is configured.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::message::Socket;

/// The proxy's port in a sealed network, where it is always free.
pub(crate) const PROXY_PORT: u16 = 47621;
/// The port of the refusing proxy.
pub(crate) const REFUSER_PORT: u16 = 47622;

const RTM_NEWLINK: u16 = 16;
const RTM_NEWROUTE: u16 = 24;
const NLM_F_REQUEST_ACK: u16 = 1 | 4;
const NLM_F_CREATE: u16 = 0x400;
const IFF_UP: u32 = 1;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;
const RTA_OIF: u16 = 4;
/// The loopback is the first interface of a network namespace.
const LOOPBACK: u32 = 1;

/// Enters a network namespace without the machine's network. Must be called while the process has a single
/// thread.
pub(crate) fn enter_namespace() -> io::Result<()> {
    if unshare(UnshareFlags::NEWNET).is_err() {
        // In a new user namespace, every user may do so.
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    raise_loopback()
}

#[allow(unsafe_code, reason = "rustix has no safe form of unshare(2)")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: file descriptors are not unshared, which is the only hazard.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Brings the loopback up and routes all addresses to it.
fn raise_loopback() -> io::Result<()> {
    // struct ifinfomsg: family, pad, type, index, flags, change
    let mut link = vec![0; 4];
    link.extend(LOOPBACK.to_ne_bytes());
    link.extend(IFF_UP.to_ne_bytes());
    link.extend(IFF_UP.to_ne_bytes());
    ask_kernel(RTM_NEWLINK, 0, &link)?;
    ask_kernel(RTM_NEWROUTE, NLM_F_CREATE, &everywhere_is_here(AddressFamily::INET))?;
    // The machine may lack IPv6.
    let _ = ask_kernel(RTM_NEWROUTE, NLM_F_CREATE, &everywhere_is_here(AddressFamily::INET6));
    Ok(())
}

/// Builds a struct rtmsg with the interface: all addresses of a family are local.
fn everywhere_is_here(family: AddressFamily) -> Vec<u8> {
    let family = family.as_raw() as u8;
    let mut route =
        vec![family, 0, 0, 0, RT_TABLE_LOCAL, RTPROT_STATIC, RT_SCOPE_HOST, RTN_LOCAL, 0, 0, 0, 0];
    route.extend(8_u16.to_ne_bytes());
    route.extend(RTA_OIF.to_ne_bytes());
    route.extend(LOOPBACK.to_ne_bytes());
    route
}

fn ask_kernel(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // protocol 0: routes
    )?;
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend((NLM_F_REQUEST_ACK | flags).to_ne_bytes());
    message.extend([0; 8]); // sequence and sender; there is only one request
    message.extend(body);
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 512];
    let (_, length) = recv(&socket, &mut answer, RecvFlags::empty())?;
    match answer[..length].get(16..20).map(|code| i32::from_ne_bytes(code.try_into().expect("four bytes"))) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel's answer is cut")),
    }
}

/// Opens the sockets of a sealed network.
pub(crate) fn listen() -> io::Result<Vec<(Socket, OwnedFd)>> {
    let local = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(OwnedFd::from);
    let mut sockets = vec![(Socket::Proxy, local(PROXY_PORT)?), (Socket::Refuser, local(REFUSER_PORT)?)];
    for port in [443, 80] {
        // One socket serves both address families if IPv6 exists.
        let socket = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?;
        sockets.push((Socket::Elsewhere { port }, socket.into()));
    }
    for addr in name_servers(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default()) {
        // If binding fails, lookups there get no answer, which is what we want.
        if let Ok(socket) = UdpSocket::bind(addr) {
            sockets.push((Socket::Names, socket.into()));
        }
    }
    Ok(sockets)
}

/// Returns the name servers. A reply must come from the address that was asked, so each needs a socket.
fn name_servers(resolv_conf: &str) -> Vec<SocketAddr> {
    let named = resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let mut servers: Vec<IpAddr> = named.filter_map(|addr| addr.trim().parse().ok()).take(3).collect();
    if !servers.contains(&Ipv4Addr::LOCALHOST.into()) {
        servers.push(Ipv4Addr::LOCALHOST.into()); // used if no server is configured
    }
    servers.into_iter().map(|addr| SocketAddr::new(addr, 53)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_server_has_its_socket() {
        let servers = name_servers("# a comment\nsearch lan\nnameserver 127.0.0.53\nnameserver  8.8.8.8\n");
        let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
        assert_eq!(servers, ["127.0.0.53:53", "8.8.8.8:53", "127.0.0.1:53"]);
    }
}
