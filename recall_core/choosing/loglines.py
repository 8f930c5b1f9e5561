"""Log lines of a made-up home lab: filler that grows a store as a year of observations would.

About one in six is in Russian. Nothing in them is about a person's life; a question about machines may yet
find one near.
"""

from __future__ import annotations

import random

WORDS = {
    "host": "nas01 pve-1 pi-hole router attic backup-box n100 garage-pi docker-01 mx".split(),
    "box": "nextcloud vaultwarden immich grafana paperless jellyfin traefik gitea frigate redis".split(),
    "room": "kitchen hallway bedroom cellar garage bathroom balcony office nursery".split(),
    "комната": "кухня прихожая спальня подвал гараж ванная балкон кабинет чердак".split(),
    "path": "/srv/media /var/lib/docker /mnt/tank/photos /home /etc /mnt/usb /var/log".split(),
}
"""What may stand for each name in a template."""
TAILS = (
    "",
    "",
    ", seen {n} times",
    "; next try in {m} s",
    ", mail sent to ops",
    " [{hex}]",
    ", {host} took over",
)
ENGLISH = """
{host} kernel: Out of memory: killed process {n} ({box}), {m} kB
{host} sshd[{n}]: Failed password for invalid user admin from {ip} port {m}
{ip} "GET /remote.php/dav HTTP/2.0" {n} bytes in {m} ms from {box}
restic on {host}: snapshot {hex} of {path} saved, {n} files changed in {m} s
Zigbee2MQTT: {room} climate sensor, humidity {pct}, linkquality {n}
zigbee device in the {room} left the network, last seen {n} s ago, battery {pct} %
container {box} on {host} turned unhealthy, restarted {n} times today
{box} on {host}: connection pool exhausted, {n} waiters, slowest {m} ms
UPS of {host}: on battery, load {pct} %, runtime left {n} s
smartd on {host}: {n} currently unreadable sectors, {pct} degrees
zpool tank on {host}: scrub found {n} checksum errors, {pct} % full
pihole on {host}: {n} queries today, {pct} % blocked
wireguard: handshake with {ip} did not complete after {n} seconds
certificate of {box}.lan renewed on {host}, expires in {pct} days
camera in the {room}: no frames received in {n} s, ffmpeg restarted
alert DiskAlmostFull {host}:{path}, {pct} % free
""".strip().splitlines()
RUSSIAN = """
{host}: на {path} осталось {pct} % места, освободил {n} МБ
датчик zigbee, {комната}: влажность {pct} %, батарея {n} мВ
бэкап restic с {host} прошёл за {n} с, снимок {hex}
контейнер {box} перезапустился {n} раз за ночь, памяти не хватило
камера, {комната}: поток оборвался, поднялся через {n} с
""".strip().splitlines()


def log_lines(n: int) -> list[str]:
    """`n` different lines, always the same; fewer of them are the first of more."""
    rng = random.Random(0)
    lines: dict[str, None] = {}
    while len(lines) < n:
        template = rng.choice(RUSSIAN if rng.random() < 1 / 6 else ENGLISH) + rng.choice(TAILS)
        drawn: dict[str, object] = {name: rng.choice(words) for name, words in WORDS.items()}
        drawn |= {"n": rng.randint(2, 9000), "m": rng.randint(2, 9000), "pct": rng.randint(1, 99)}
        drawn |= {
            "ip": f"10.0.{rng.randint(1, 40)}.{rng.randint(2, 254)}",
            "hex": f"{rng.getrandbits(32):08x}",
        }
        lines[template.format_map(drawn)] = None
    return list(lines)
