"""Log lines of a made-up home lab: filler that grows a store as a year of observations would.

Most are in English, about one in six in Russian, as a person notes what their machines did. Nothing in them
is about a person's life; a question about machines may yet find one near.
"""

from __future__ import annotations

import random
from collections.abc import Callable

HOSTS = "nas01 pve-1 pve-2 pi-hole router attic backup-box n100 garage-pi media docker-01 mx k3s-a".split()
CONTAINERS = (
    "nextcloud vaultwarden immich grafana paperless jellyfin traefik gitea frigate postgres redis".split()
)
ROOMS = "kitchen hallway bedroom cellar garage bathroom balcony office attic nursery".split()
ROOMS_RU = "кухня прихожая спальня подвал гараж ванная балкон кабинет чердак детская".split()
UNITS = "restic-backup smartd nut-monitor fstrim logrotate wg-quick@wg0 certbot mdadm zfs-scrub".split()
PATHS = "/srv/media /var/lib/docker /mnt/tank/photos /home /etc /mnt/usb /var/log /opt/stacks".split()
SITES = "cloud.lan git.lan photos.lan wiki.home.arpa pass.lan cam.lan status.lan".split()
DISKS = "sda sdb sdc sdd nvme0n1 nvme1n1".split()
NICS = "eth0 enp3s0 br0 wg0 wlan0 vmbr1".split()

SLOTS: dict[str, Callable[[random.Random], object]] = {
    "host": lambda r: r.choice(HOSTS),
    "box": lambda r: r.choice(CONTAINERS),
    "room": lambda r: r.choice(ROOMS),
    "комната": lambda r: r.choice(ROOMS_RU),
    "unit": lambda r: r.choice(UNITS),
    "path": lambda r: r.choice(PATHS),
    "site": lambda r: r.choice(SITES),
    "disk": lambda r: r.choice(DISKS),
    "nic": lambda r: r.choice(NICS),
    "ip": lambda r: f"192.168.{r.randint(1, 40)}.{r.randint(2, 254)}",
    "out": lambda r: ".".join(str(r.randint(1, 254)) for _ in range(4)),
    "port": lambda r: r.randint(1024, 65535),
    "pid": lambda r: r.randint(200, 64000),
    "pct": lambda r: r.randint(1, 99),
    "low": lambda r: r.randint(2, 15),
    "deg": lambda r: r.randint(28, 79),
    "ms": lambda r: r.randint(2, 4800),
    "s": lambda r: r.randint(2, 3600),
    "gb": lambda r: f"{r.uniform(0.2, 940):.1f}",
    "mb": lambda r: r.randint(3, 2048),
    "n": lambda r: r.randint(2, 9000),
    "v": lambda r: f"{r.uniform(212, 243):.1f}",
    "hex": lambda r: f"{r.getrandbits(32):08x}",
    "mac": lambda r: ":".join(f"{r.getrandbits(8):02x}" for _ in range(6)),
    "ieee": lambda r: f"0x00158d00{r.getrandbits(32):08x}",
    "lqi": lambda r: r.randint(18, 255),
    "hum": lambda r: r.randint(25, 83),
    "temp": lambda r: f"{r.uniform(-14, 31):.1f}",
    "ver": lambda r: f"{r.randint(1, 32)}.{r.randint(0, 14)}.{r.randint(0, 9)}",
    "at": lambda r: f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d}",
    "day": lambda r: (
        f"{r.choice('Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split())} {r.randint(1, 28):2d}"
    ),
    "iso": lambda r: f"2026-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}",
    "code": lambda r: r.choice([200, 204, 301, 304, 401, 403, 404, 429, 499, 502, 503, 504]),
    "verb": lambda r: r.choice(["GET", "GET", "POST", "PUT", "PROPFIND", "HEAD"]),
}
"""What stands for each name in a template; every use is drawn anew."""

ENGLISH = """
{day} {at} {host} kernel: ata{low}: SATA link down (SStatus 0 SControl 300)
{day} {at} {host} kernel: {nic}: Link is Up - 1000Mbps/Full - flow control rx/tx
{day} {at} {host} kernel: Out of memory: Killed process {pid} ({box}) total-vm:{n}kB, oom_score_adj:0
{day} {at} {host} kernel: EXT4-fs ({disk}1): mounted filesystem {hex} with ordered data mode
{host} kernel: usb 1-{low}: new high-speed USB device number {low} using xhci_hcd
{host} kernel: CPU{low}: Core temperature above threshold, cpu clock throttled (total events = {n})
{day} {at} {host} systemd[1]: {unit}.service: Main process exited, code=exited, status={low}/n/a
{day} {at} {host} systemd[1]: Started {unit}.service after {ms}ms.
{host} systemd[1]: {unit}.timer: Adding {s}s random delay.
{host} systemd-resolved[{pid}]: Using degraded feature set UDP instead of UDP+EDNS0 for DNS server {ip}.
{host} sshd[{pid}]: Failed password for invalid user admin from {out} port {port} ssh2
{host} sshd[{pid}]: Accepted publickey for ops from {ip} port {port} ssh2: ED25519 SHA256:{hex}{hex}
{ip} - - [{iso} {at}] "{verb} /remote.php/dav HTTP/2.0" {code} {n} "{site}"
{iso} {at} [error] {pid}#0: *{n} upstream timed out while reading response header, server: {site}
nginx on {host}: {n} requests to {site} in the last hour, {pct} of them answered {code}
{out} - - [{iso} {at}] "GET /wp-login.php HTTP/1.1" 404 {n} "-" "Mozilla/5.0 zgrab/0.x"
restic on {host}: snapshot {hex} saved, {n} files changed, {gb} GiB processed in {s} s
restic[{host}]: repository {hex} opened, lock held by PID {pid} is stale, removed
restic forget {path}: kept {low} daily and {low} weekly snapshots, removed {n}; pruned {gb} GiB
check of repository {hex}: no errors were found, {pct} % of packs read from {path}
Zigbee2MQTT:info {iso} {at}: MQTT publish: zigbee2mqtt/{room}_climate temperature {temp} humidity {hum}
Zigbee2MQTT:warn device {ieee} ({room}) left the network, last seen {s} s ago
Zigbee2MQTT:debug {room} contact sensor: battery {pct}, linkquality {lqi}, voltage {n}
zigbee: {ieee} re-joined through router {ieee}, lqi {lqi}
docker[{pid}]: container {box} health status changed from starting to unhealthy after {low} probes
dockerd on {host}: pulled {box}:{ver}, {mb} MB, digest sha256:{hex}{hex}
{box} | {iso} {at} WARN connection pool exhausted, {n} waiters, slowest {ms} ms
compose stack {box} on {host} recreated; image {ver} replaced by {ver}
{box} exited with code 137, restarted by policy unless-stopped, {low} times today
UPS apc@{host}: on battery, load {pct} %, runtime left {s} s, input {v} V
upsmon[{pid}]: communications with UPS eaton@{host} restored, line {v} V
nut: battery of {host} replaced by date overdue, charge {pct} %, self test passed at {at}
smartd[{pid}]: Device /dev/{disk} [SAT], SMART Usage Attribute 194 Temperature_Celsius changed to {deg}
smartd on {host}: /dev/{disk}, {n} Currently unreadable (pending) sectors
zpool tank on {host}: scrub repaired 0B in {at} with 0 errors, {pct} % full
ZFS: pool tank, device {disk} {n} checksum errors, state ONLINE, action clear
md0: resync {pct} % done, finish in {low} min, speed {n}K/sec
dnsmasq-dhcp[{pid}]: DHCPACK({nic}) {ip} {mac} shelly-{hex}
pihole on {host}: {n} queries today, {pct} % blocked, gravity updated at {at}
unbound: resolver reply {ms} ms above average for {site}, SERVFAIL {n} times
wireguard: {nic}: handshake with peer {low} ({out}:{port}) did not complete after {low} seconds, retrying
certbot: certificate of {site} renewed, expires in {pct} days; nginx reloaded on {host}
proxmox vzdump: backup of VM 1{pct} finished, {gb} GB in {at}, compression zstd
qemu guest 1{pct} on {host}: agent not responding, migration to {host} postponed
prometheus alert NodeFilesystemAlmostFull {host}:{path}, {low} % free
grafana: dashboard {hex} saved by provisioning, {n} panels, datasource latency {ms} ms
homeassistant: automation.{room}_lights already running, {low} instances
homeassistant.components.recorder: purge took {s} s, database now {mb} MB
esphome[{room}-node]: WiFi signal -{pct} dB, uptime {n} s, heap {n} bytes
mosquitto: client {room}-{hex} disconnected, not authorised, {ip}
frigate: camera {room}: no frames received in {s} seconds, ffmpeg restarted (pid {pid})
fail2ban.actions[{pid}]: NOTICE [sshd] Ban {out}, {n} bans so far
postfix/smtp on {host}: {hex}: status=deferred (connection timed out to {out}:25), delay={s}
unattended-upgrades on {host}: {low} packages upgraded, reboot required: linux-image-{ver}
syncthing: folder {path} out of sync, {n} items, {mb} MB remaining on {host}
jellyfin transcode {hex}: {n} frames, speed {low}.{low}x, dropped {pct} frames, host {host}
""".strip().splitlines()

RUSSIAN = """
{host}: на {path} осталось {pct} % места, чистил старые снимки, освободил {gb} ГБ
датчик zigbee, {комната}: {temp} °C, влажность {hum} %, батарея {pct} %
ИБП на {host}: сеть пропала в {at}, держал {s} с, нагрузка {pct} %
бэкап restic с {host} прошёл за {s} с, снимок {hex}, {n} новых файлов
контейнер {box} перезапустился {low} раз за ночь, код 137, памяти не хватило
обновил {box} до {ver}, миграция базы шла {s} с
диск {disk} в {host}: {deg} градусов, переназначенных секторов {n}
nginx: {site} отвечает {code}, задержка {ms} мс, жалоба в {at}
wireguard: узел {out}:{port} молчит {s} с, рукопожатия нет
роутер: {mac} получил {ip}, интерфейс {nic}
камера, {комната}: поток оборвался в {at}, поднялся через {s} с
сертификат для {site} продлён {iso}, хватит на {pct} дней
""".strip().splitlines()


HEADS = ("", "", "", "{day} {at} ", "{iso}T{at}Z ", "[{at}] ", "{host}: ", "<{low}>")
TAILS = """
, seen {low} times | ; next try in {s} s | (was {pct} % yesterday) | , last on {iso} | , mail sent to ops
| ; acknowledged at {at} | [{hex}] | , see {path} | , {host} took over | ; took {ms} ms
""".replace("\n", " ").split("|")
"""What may stand before and after, so that two lines of one template are not one line with other numbers."""


class _Drawn(dict[str, object]):
    """A value drawn for every name a template asks for."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def __missing__(self, name: str) -> object:
        return SLOTS[name](self.rng)


def log_lines(n: int, seed: int = 0) -> list[str]:
    """`n` different lines. The same seed gives the same lines, and fewer of them are the first of more."""
    rng = random.Random(seed)
    drawn = _Drawn(rng)
    lines: dict[str, None] = {}
    while len(lines) < n:
        template = rng.choice(RUSSIAN if rng.random() < 1 / 6 else ENGLISH)
        head = "" if template.startswith(("{day}", "{iso}", "{host}")) else rng.choice(HEADS)
        tail = rng.choice(TAILS).rstrip() if rng.random() < 0.4 else ""
        lines[f"{head}{template}{tail}".replace(" ,", ",").replace(" ;", ";").format_map(drawn)] = None
    return list(lines)
