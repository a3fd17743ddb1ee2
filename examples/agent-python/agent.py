"""A small agent that can be killed at any point and started again.

It reads a ticket, lets a model decide, has a refund made, and ends the run. All of its state is in the journal of the daemon:
started again with the same run it goes on where it was, and the model is never asked again about what it has decided.
Only the standard library is needed. See README.md.
"""

import argparse
import datetime
import http.client
import json
import os
import random
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


class ScriptedModel:
    """Plays a model, offline. A real one goes here: one method.

    choose gets what has happened in the run so far and returns what to do next: a dict with tool, arguments, finish and note. A
    real model would get the events as its messages and the tools it may call, and the tool call in its answer becomes the dict.
    Nothing else of the agent changes. Asked twice, this one says the same in other words and with another amount, as models do:
    watch that it is not asked twice.
    """

    def choose(self, events):
        last, decided = events[-1], events[-1].get("decision", {})
        if last["do"] == "new_step":
            return {"finish": True, "arguments": {"reply": "We are sorry, we could not refund you."}}
        if decided.get("tool"):
            return {"finish": True, "arguments": {"reply": "Your money is on its way."}, "note": "the refund is done"}
        ticket = decided["arguments"]
        why = random.choice(["arrived broken", "the customer reports a defect", "damaged in transit", "not as described"])
        arguments = {name: ticket[name] for name in ("order_id", "ticket_id", "payment_intent")}
        arguments.update(amount=ticket["paid"] - random.randrange(100), reason=why)
        return {"tool": "stripe.refund", "arguments": arguments, "note": why}


class Refused(Exception):
    """The daemon refused a request; problem is its document (RFC 9457)."""

    def __init__(self, problem):
        super().__init__(problem.get("detail", "") + " (" + problem.get("remedy", "") + ")")
        self.problem = problem


class Agent:
    def __init__(self, server, run, model):
        self.server, self.run, self.model = server.rstrip("/"), run, model
        # The daemon is on this machine: no proxy.
        self.http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def work(self, ticket):
        """Goes through the run from its first step. What is recorded already is only read."""
        reached("started")
        # The ticket is recorded too, so that the run goes on with what the model saw, whatever becomes of the file.
        events = [self.step("ticket", lambda: {"arguments": read(ticket), "note": "read from " + ticket})]
        while events[-1]["do"] in ("use_result", "new_step"):
            events.append(self.step("step-%d" % len(events), lambda: self.model.choose(events)))
        return events[-1]

    def step(self, name, decide):
        """Brings one step to its end, wherever it is now: ask, record, execute, wait."""
        while True:
            try:
                step = self.send("GET", self.path(name))
                if step["do"] == "decide":
                    step = self.decide(name, decide)
                if step["do"] == "execute":
                    step = self.execute(step)
            except Refused as refused:
                if refused.problem.get("next") not in ("retry_after", "wait"):
                    raise
                reached("try again: " + str(refused))
                time.sleep(0.2)
                continue
            except (OSError, http.client.HTTPException) as gone:
                # No answer: what was asked may have happened. Asking again is harmless.
                reached("try again: " + str(gone))
                time.sleep(0.2)
                continue
            if step["do"] != "wait":
                reached(("finished:" if step["do"] == "finished" else "done:") + name)
                return step
            time.sleep(seconds(step.get("retry_after", "200ms")))

    def decide(self, name, ask):
        """Asks, and records what was said before anything runs. If somebody was faster, theirs counts."""
        reached("asked:" + name)
        choice = ask()
        reached("decided:" + name)
        step = self.send("POST", self.path(name) + "/decision", dict(choice, actor="agent-python"))
        reached("recorded:" + name)
        return step

    def execute(self, step):
        """Has the recorded call made. It is harmless to repeat: the same call has its effect once."""
        reached("execute:" + step["step"])
        decided = step["decision"]
        call = {"tool": decided["tool"], "arguments": decided["arguments"], "run": self.run, "step": step["step"], "actor": "agent-python"}
        operation = self.send("POST", "/v1/operations?wait=20s", call)
        reached("executed:" + step["step"])
        do = {"use_result": "use_result", "new_intent": "new_step", "stop_and_report": "stop"}.get(operation["next"], "wait")
        return dict(step, operation=operation, do=do, retry_after=operation.get("retry_after", "200ms"))

    def path(self, step):
        return "/v1/runs/%s/steps/%s" % (urllib.parse.quote(self.run, safe=""), urllib.parse.quote(step, safe=""))

    def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with self.http.open(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise Refused(json.loads(refusal.read())) from None


def seconds(duration):
    """Reads a duration of the API, like 1m30s or 200ms."""
    units, total, number = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}, 0.0, ""
    rest = duration
    while rest:
        if rest[0].isdigit() or rest[0] == ".":
            number, rest = number + rest[0], rest[1:]
            continue
        unit = "ms" if rest.startswith("ms") else rest[0]
        total, number, rest = total + float(number) * units[unit], "", rest[len(unit):]
    return total


def read(name):
    with open(name, encoding="utf-8") as file:
        return json.load(file)


def reached(point):
    """Tells on standard error where the agent is. With AGENT_DIE_AT it is killed there, so that you can try what a restart does."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    print(now, point, file=sys.stderr, flush=True)
    if point == os.environ.get("AGENT_DIE_AT"):
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("--server", default="http://127.0.0.1:7171", help="the daemon")
    line.add_argument("--run", required=True, help="the run to begin, or to go on with")
    line.add_argument("--ticket", default="ticket.json", help="the ticket")
    given = line.parse_args()
    try:
        last = Agent(given.server, given.run, ScriptedModel()).work(given.ticket)
    except Refused as refused:
        print("agent-python:", refused, file=sys.stderr)
        return 1
    if last["do"] == "stop":
        print("stopped, a person has to look:", last["operation"].get("reason", last["operation"]["outcome"]))
        return 3
    print("run %s has ended: %s" % (given.run, json.dumps(last.get("decision", {}).get("arguments"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
