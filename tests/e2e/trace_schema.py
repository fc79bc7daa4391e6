"""What a trace file must be for Perfetto and chrome://tracing: Chrome's trace event format, as far as we use it."""

import json

import jsonschema

STAGES = ["read", "inflate", "h2d", "kernel", "d2h", "deflate", "write"]

NUMBER = {"type": "integer", "minimum": 0}
SPAN = {
    "properties": {
        "ph": {"const": "X"},
        "name": {"enum": STAGES},
        "cat": {"const": "stage"},
        "pid": NUMBER,
        "tid": NUMBER,
        "ts": {"type": "number", "minimum": 0},
        "dur": {"type": "number", "minimum": 0},
        "args": {
            "type": "object",
            "properties": {"step": NUMBER, "bytes": NUMBER},
            "required": ["bytes"],
            "additionalProperties": False,
        },
    },
    "required": ["ph", "name", "cat", "pid", "tid", "ts", "dur", "args"],
    "additionalProperties": False,
}
NAME = {
    "properties": {
        "ph": {"const": "M"},
        "name": {"enum": ["process_name", "thread_name"]},
        "pid": NUMBER,
        "tid": NUMBER,
        "args": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1}},
            "required": ["name"],
            "additionalProperties": False,
        },
    },
    "required": ["ph", "name", "pid", "tid", "args"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "displayTimeUnit": {"const": "ms"},
        "traceEvents": {"type": "array", "items": {"type": "object", "oneOf": [SPAN, NAME]}},
    },
    "required": ["traceEvents"],
    "additionalProperties": False,
}


def load(path):
    """Reads a trace file, checks it and returns (runs, spans): run names by pid, and the spans as they are, each with
    `run` and `thread` beside its numbers."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    jsonschema.validate(trace, SCHEMA)
    events = trace["traceEvents"]
    runs = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    names = [event for event in events if event["ph"] == "M"]
    assert len(names) == len(runs) + len(threads), "a process or thread has two names"
    spans = [event for event in events if event["ph"] == "X"]
    for span in spans:
        span["run"], span["thread"] = runs[span["pid"]], threads[span["pid"], span["tid"]]
        assert span["thread"].rsplit(" ", 1)[0] == span["name"]
    return runs, spans
