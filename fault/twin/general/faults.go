package general

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault/twin"
)

// targetWrite are all requests with an effect.
const targetWrite twin.Target = "write"

// Targets are what a fault plan for a contract can name: each operation with an effect, by its name or by what stands before the first dot of it,
// and write, lookup and any.
func Targets(c *contract.Contract) []twin.Target {
	found := map[twin.Target]bool{}
	for name, o := range c.Operations {
		if o.Effect != contract.EffectRead {
			found[twin.Target(name)] = true
			family, _, _ := strings.Cut(name, ".")
			found[twin.Target(family)] = true
		}
	}
	return append(slices.Sorted(maps.Keys(found)), targetWrite, twin.TargetLookup, twin.TargetAny)
}

// ParsePlan reads a fault plan for a contract: the language of [twin.Plan] with the [Targets] of the contract.
func ParsePlan(c *contract.Contract, line string) (twin.Plan, error) {
	return twin.ParsePlanOf(line, Targets(c))
}

// targets are what a request counts as.
func (in incoming) targets() []twin.Target {
	switch {
	case in.operation == nil:
		return []twin.Target{twin.TargetAny}
	case !in.writes():
		return []twin.Target{twin.TargetLookup, twin.TargetAny}
	}
	name := in.operation.Name
	all := []twin.Target{twin.Target(name), targetWrite, twin.TargetAny}
	if family, _, dotted := strings.Cut(name, "."); dotted {
		all = append(all, twin.Target(family))
	}
	return all
}

// struck are the faults that one request meets.
type struck struct {
	arrival time.Duration // before it is looked at
	hold    time.Duration // its processing, instead of the usual
	twice   bool
	ending  twin.Step // the fault of its answer; the zero value means none
	names   []string
}

// strike counts a request and collects what the plan does to it; the lock is held.
func (s *Server) strike(in incoming) struck {
	targets := in.targets()
	for _, t := range targets {
		s.counts[string(t)]++
	}
	var hit struck
	for _, step := range s.plan {
		n := s.counts[string(step.Target)]
		if !slices.Contains(targets, step.Target) || step.From != 0 && (n < step.From || n > step.To) {
			continue
		}
		switch {
		case step.What == twin.Hold || step.What == twin.Twice:
			if !in.writes() {
				continue
			}
			hit.twice = hit.twice || step.What == twin.Twice
			hit.hold += step.For
		case step.What == twin.Slow && step.When == twin.BeforeEffect:
			hit.arrival += step.For
		case hit.ending.What == "":
			hit.ending = step
		default:
			continue
		}
		hit.names = append(hit.names, step.String())
	}
	return hit
}

// deliver sends an answer, or does to it what the plan's step says.
func (s *Server) deliver(w http.ResponseWriter, in incoming, seen *Received, step twin.Step, p reply) {
	switch step.What {
	case twin.Drop:
		panic(http.ErrAbortHandler)
	case twin.Reset:
		reset(w)
		panic(http.ErrAbortHandler)
	case twin.Hang:
		if step.When != twin.BeforeEffect {
			s.wait(step.For, in.gone)
		}
		panic(http.ErrAbortHandler)
	case twin.Cut:
		s.noteStatus(seen, p.status)
		p.head(w)
		_, _ = w.Write(p.body[:len(p.body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case twin.Slow:
		if step.When == twin.AfterEffect && !s.wait(step.For, nil) {
			panic(http.ErrAbortHandler)
		}
	case twin.Status:
		// A 500 that the provider itself made is already p.
		if step.Code != http.StatusInternalServerError || p.status != http.StatusInternalServerError {
			p = s.statusReply(in.operation, step.Code)
		}
	case twin.Garble:
		p = reply{status: http.StatusOK, header: map[string]string{"Content-Type": "application/json"}, body: []byte(`{"id": "twin_, "object": `)}
	case twin.Foreign:
		p = s.foreign(in)
	}
	s.noteStatus(seen, p.status)
	p.write(w)
}

// reset closes the connection with unsent data thrown away, which the other side sees as a TCP reset. Where there is no TCP connection to be had
// it does nothing, and the caller's abort has to do.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// foreign is an answer of the right form about a resource that is not the asker's.
func (s *Server) foreign(in incoming) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !in.writes() {
		p, _ := s.listed(in, []*Effect{})
		return p
	}
	e := s.effectOf(in, "")
	e.ID = "foreign_" + e.ID
	o := in.operation
	if o.Reference != "" {
		e.Resource = set(e.Resource, o.Reference.Segments(), e.ID)
	}
	if o.Stamp.Set() {
		e.Resource = set(e.Resource, o.Stamp.Path.Segments(), "foreign")
	}
	return s.success(e)
}
