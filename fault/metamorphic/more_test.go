package metamorphic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/effectonce/effectonce"
)

func (s *system) limits(args []int) answer {
	f := []effectonce.LimitFilter{{Limit: 100, Holders: 100}, {Name: "count", Holders: 1}, {Tenant: "acme", Text: "OUR", Limit: 100}}[args[0]]
	uses, err := s.store.Limits(context.Background(), f)
	return said(err, uses)
}

func runName(n int) string { return fmt.Sprintf("run-%d", n) }

func (s *system) decide(args []int) answer {
	d := effectonce.Decision{
		Tenant: "acme", Run: runName(args[0]), Step: fmt.Sprintf("step-%d", args[1]), Tool: "refund", IntentID: fmt.Sprintf("intent-%d", args[2]),
		Arguments: json.RawMessage(fmt.Sprintf(`{"amount":%d}`, args[2])), Note: "in some words", Actor: "agent",
	}
	switch args[2] {
	case 1:
		d.Operation = effectonce.Key{7}
	case 2:
		d.Tool, d.IntentID, d.Arguments, d.Note = "", "", nil, ""
	case 3:
		d.Finish = args[1] == 4
	}
	stored, first, err := s.store.Decide(context.Background(), d)
	return said(err, stored, first)
}

func (s *system) decision(args []int) answer {
	d, err := s.store.Decision(context.Background(), "acme", runName(args[0]), fmt.Sprintf("step-%d", args[1]))
	a := said(err, d)
	all, err := s.store.Decisions(context.Background(), "acme", runName(args[0]))
	a.Said = append(a.Said, all, failureOf(err))
	return a
}

func (s *system) runs(args []int) answer {
	f := []effectonce.RunFilter{{}, {Unfinished: true}, {Text: "UN-2"}, {Tenant: "nobody"}}[args[0]]
	f.Limit = []int{1, 2, 50}[args[1]]
	var a answer
	for {
		page, err := s.store.Runs(context.Background(), f)
		a.Said = append(a.Said, page.Runs, failureOf(err), page.Next == "")
		if f.After = page.Next; err != nil || f.After == "" {
			return a
		}
	}
}

func subject(n int) string { return fmt.Sprintf("orders.%d", n) }

// append adds messages to one subject: of several that are due at the same moment any may be taken first.
func (s *system) append(args []int) answer {
	var messages []effectonce.Message
	for n := range 1 + args[1] {
		m := effectonce.Message{Subject: subject(args[0]), Type: "refund.settled", Data: fmt.Appendf(nil, `{"n":%d}`, n)}
		if args[2] == 1 {
			m.Tenant = "acme"
		}
		if args[2] == 2 && n == 0 {
			m.ID = fmt.Sprintf("event-%d", args[0])
		}
		messages = append(messages, m)
	}
	err := s.store.Append(context.Background(), messages...)
	return said(err)
}

func (s *system) take(args []int) answer {
	q, messages, err := s.store.TakeQueue(context.Background(), []time.Duration{time.Second, time.Minute, time.Hour}[args[0]], []int{1, 2, 10}[args[1]])
	if err == nil {
		s.taken, s.messages = q, len(messages)
	}
	return said(err, q, messages)
}

func (s *system) giveBack(args []int) answer {
	r := effectonce.Relayed{Delivered: min(args[0], s.messages)}
	if r.Delivered < s.messages {
		r.Reason = "503"
		switch args[1] {
		case 0:
			r.Park = true
		default:
			r.Again = time.Duration(args[1]) * 7 * time.Second
		}
	}
	q := s.taken
	if args[2] == 2 {
		q.Token--
	}
	err := s.store.ReturnQueue(context.Background(), q, r)
	return said(err)
}

func (s *system) unpark(args []int) answer {
	var a answer
	for _, tenant := range []string{effectonce.DefaultTenant, "acme"} {
		page, err := s.store.Queues(context.Background(), effectonce.QueueFilter{Tenant: tenant, Subject: subject(args[0])})
		a.Said = append(a.Said, overdue(page.Queues), failureOf(err))
		head := "another"
		if len(page.Queues) > 0 && args[1] == 0 {
			head = page.Queues[0].Head
		}
		err = s.store.Unpark(context.Background(), tenant, subject(args[0]), head, args[2] == 1)
		a.Said = append(a.Said, failureOf(err))
	}
	return a
}

// overdue leaves out since when queues are due that are: of one that was empty a store may know it only when a relay looks.
func overdue(queues []effectonce.Queue) []effectonce.Queue {
	for i := range queues {
		if q := &queues[i]; !q.Parked && !q.DueAt.After(q.AsOf) {
			q.DueAt = time.Time{}
		}
	}
	return queues
}

func (s *system) queues(args []int) answer {
	f := []effectonce.QueueFilter{{}, {Parked: true}, {Text: "ERS.2"}, {Tenant: "acme"}}[args[0]]
	f.Limit = []int{1, 2, 50}[args[1]]
	var a answer
	for {
		page, err := s.store.Queues(context.Background(), f)
		a.Said = append(a.Said, overdue(page.Queues), failureOf(err), page.Next == "")
		if f.After = page.Next; err != nil || f.After == "" {
			return a
		}
	}
}

// purge does what is to be done for retention, as the daemon does it.
func (s *system) purge(args []int) answer {
	ops, err := s.store.Purgeable(context.Background(), 1+args[0])
	a := said(err, ops)
	for _, op := range ops {
		t, err := effectonce.Next(op, effectonce.Purged{}, op.AsOf)
		if err != nil {
			a.Said = append(a.Said, failureOf(err))
			continue
		}
		purged, err := s.store.Apply(context.Background(), t)
		a.Said = append(a.Said, purged, failureOf(err))
	}
	return a
}

// forget deletes in bounded pieces until nothing is left to delete; which come first is the store's choice.
func (s *system) forget(args []int) answer {
	total := 0
	for {
		n, err := s.store.Forget(context.Background(), 1+args[0])
		total += n
		if n == 0 || err != nil {
			return said(err, total)
		}
	}
}
