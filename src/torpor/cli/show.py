"""`torpor show`: everything an image says."""

from __future__ import annotations

from typing import Any

import click

from torpor import api
from torpor.cli import output
from torpor.cli.options import image_name

BLOCKS_SHOWN = 16


@click.command("show")
@image_name
@click.option("--verify", is_flag=True, help="Check every file's length and hash first.")
@click.option("--all", "every", is_flag=True, help="List every block and file.")
@output.json_flag
def command(image: str, verify: bool, every: bool) -> None:
    """Decode an image: job, host, driver, processes, blocks, files, phases."""
    source = api.find(image)
    if verify:
        source.verify()
    data = source.show()
    output.result(data, "" if output.as_json else text(data, every))


def text(data: dict[str, Any], every: bool) -> str:
    """The image for people; long lists are cut unless `every`."""
    job, host, driver = data["job"], data["host"], data["driver"]
    lines = [
        f"image      {data['name']} (format {data['format']}, {data['tier']})",
        f"path       {data['path']}",
        f"state      {_state(data)}",
        f"created    {output.second(data['created'])} by torpor {data['torpor']}",
        f"job        {job['name']}: {' '.join(job['command'])}",
        f"cwd        {job['cwd']}",
        f"arena      {'yes' if job['arena'] else 'no'}",
        f"env        {' '.join(f'{key}={value}' for key, value in sorted(job['env'].items())) or '-'}",
        f"host       kernel {host['kernel']}, {host['machine']}, CRIU {host['criu']}",
        f"driver     {driver['kind']} {driver['version']}, {driver['path'] or '-'} {driver['build_id'] or ''}".rstrip(),
        f"root       process {data['root']}",
        "stdio      " + ", ".join(f"{key} {value or '-'}" for key, value in data["stdio"].items()),
        f"sizes      GPU {output.size(data['gpu_bytes'])}, CPU {output.size(data['cpu_bytes'])}",
    ]
    for process in data["processes"]:
        lines += _process(process, every)
    lines += _files(data, every)
    if "streams" in data:
        lines += _streams(data)
    if data["phases"]:
        lines.append("phases")
        lines += [f"  {name:<20} {seconds * 1000:9.1f} ms" for name, seconds in data["phases"].items()]
    return "\n".join(map(output.one_line, lines))


def _state(data: dict[str, Any]) -> str:
    """`in memory, 43 % written to PLACE`."""
    writing = data.get("writing")
    return f"{data['state']} (to {writing['place']})" if writing is not None else str(data["state"])


def _process(process: dict[str, Any], every: bool) -> list[str]:
    blocks = process["blocks"]
    lines = [f"process    {process['pid']}: {len(blocks)} blocks"]
    lines += [
        f"  device {device['ordinal']}: {device['name']}, {device['arch']}, {output.size(device['memory'])}, "
        f"{device['uuid']}"
        for device in process["devices"]
    ]
    shown = blocks if every else blocks[:BLOCKS_SHOWN]
    lines += [
        f"  block {block['address']:#x}  {output.size(block['size']):>10}  device {block['device']}  "
        f"{len(block['extents'])} extents"
        for block in shown
    ]
    if len(shown) < len(blocks):
        lines.append(f"  and {len(blocks) - len(shown)} more (--all)")
    return lines


def _files(data: dict[str, Any], every: bool) -> list[str]:
    lines = ["files"]
    if every:
        return lines + [
            f"  {entry['path']:<28} {output.size(entry['size']):>10}  {entry['hash'] or 'not hashed'}"
            for entry in data["files"]
        ]
    return lines + [
        f"  {folder:<10} {sums['files']:5} files  {output.size(sums['bytes']):>10}"
        for folder, sums in data["folders"].items()
    ]


def _streams(data: dict[str, Any]) -> list[str]:
    kinds = {kind: [one for one in data["streams"] if one["kind"] == kind] for kind in ("block", "pages", "file")}
    return [
        f"store      {data['store']}",
        f"id         {data['id']}",
        f"tags       {' '.join(data['tags']) or '-'}",
        f"chunks     {data['chunks']} of {output.size(data['chunk'])}, {data['distinct']} distinct",
        *[
            f"  {kind:<10} {len(streams):5} streams  {output.size(sum(one['size'] for one in streams)):>10}"
            for kind, streams in kinds.items()
        ],
    ]
