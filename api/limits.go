package api

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
)

// LimitPart is what an operation takes of a limit (S8.3).
type LimitPart struct {
	Name   string `json:"name" doc:"What is limited, in business terms."`
	Amount int64  `json:"amount" doc:"What this operation takes: minor units of one currency, or 1 for a count."`
	Max    int64  `json:"max" doc:"The most that all may take together."`
	Per    string `json:"per,omitempty" doc:"Length of the limit's periods, like 24h0m0s; absent for a total without periods."`
}

// Limit is what is taken of a limit in one period (S8.3).
type Limit struct {
	Tenant  string        `json:"tenant" doc:"The isolation boundary."`
	Name    string        `json:"name" doc:"What is limited, in business terms."`
	Used    int64         `json:"used" doc:"What is taken: reserved by operations that are not settled, spent by those that succeeded or were abandoned."`
	Max     int64         `json:"max" doc:"The most that all may take together, as the last operation was given it."`
	Per     string        `json:"per,omitempty" doc:"Length of the limit's periods, like 24h0m0s; absent for a total without periods."`
	From    *time.Time    `json:"from,omitempty" doc:"Start of the period."`
	Until   *time.Time    `json:"until,omitempty" doc:"End of the period."`
	Holders []LimitHolder `json:"holders" nullable:"false" doc:"Operations that took it and have not failed, newest first; some of them where there are many."`
}

// LimitHolder is an operation's part in a limit.
type LimitHolder struct {
	Key    string `json:"key" doc:"The operation."`
	Amount int64  `json:"amount" doc:"What it took."`
	State  string `json:"state" doc:"Where it is in its life: what is not final may give it back."`
	// The rest needs a look at each operation, and so is only there for one limit by name.
	Tool      string     `json:"tool,omitempty" doc:"Its tool; only where one limit is asked for by name, like what follows."`
	IntentID  string     `json:"intent_id,omitempty" doc:"Its intent in business terms."`
	Run       string     `json:"run,omitempty" doc:"The run that recorded it first."`
	CreatedAt *time.Time `json:"created_at,omitempty" doc:"When it was recorded."`
	Age       string     `json:"age,omitempty" doc:"How long ago that was, by the store's clock."`
}

// LimitList is the limits in use.
type LimitList struct {
	Limits []Limit `json:"limits" nullable:"false" doc:"The limits, those of the latest period first."`
}

func (s *server) routeLimits() {
	str := &huma.Schema{Type: huma.TypeString}
	register(s, endpoint{
		method: http.MethodGet, path: "/v1/limits", id: "limits", tag: "operations",
		summary: "Show limits in use, and what holds them", description: "What is reserved by an operation that is not settled comes back when it fails. What succeeded or was abandoned has spent its part.",
		query: []*huma.Param{
			{Name: "name", In: "query", Description: "Only the limit of this name, with more about what holds it.", Schema: str},
			{Name: "q", In: "query", Description: "Only limits with this text in their name.", Schema: str},
			{Name: "limit", In: "query", Description: fmt.Sprintf("How many limits, 1 to %d; 50 if left out.", effectonce.ListLimitMax), Schema: &huma.Schema{Type: huma.TypeInteger}},
		},
		answers: []answer{{http.StatusOK, reflect.TypeFor[LimitList](), "The limits.", nil}},
	}, s.listLimits)
}

func (s *server) listLimits(c call[none]) (reply, error) {
	n, err := pageSize(c.query.Get("limit"))
	if err != nil {
		return reply{}, err
	}
	name := c.query.Get("name")
	uses, err := s.store.Limits(c.ctx, effectonce.LimitFilter{Name: name, Text: c.query.Get("q"), Limit: n})
	if err != nil {
		return reply{}, err
	}
	body := LimitList{Limits: make([]Limit, 0, len(uses))}
	for _, u := range uses {
		l := limitView(u)
		for i := range l.Holders {
			if name == "" {
				break
			}
			if err := s.describe(c.ctx, u.Holders[i].Key, &l.Holders[i]); err != nil {
				return reply{}, err
			}
		}
		body.Limits = append(body.Limits, l)
	}
	return reply{status: http.StatusOK, body: body}, nil
}

func limitView(u effectonce.LimitUse) Limit {
	l := Limit{Tenant: u.Tenant, Name: u.Name, Used: u.Used, Max: u.Max, Per: duration(u.Per), From: moment(u.From), Holders: make([]LimitHolder, 0, len(u.Holders))}
	if u.Per > 0 && !u.From.IsZero() {
		l.Until = moment(u.From.Add(u.Per))
	}
	for _, h := range u.Holders {
		l.Holders = append(l.Holders, LimitHolder{Key: text(h.Key), Amount: h.Amount, State: string(h.State)})
	}
	return l
}

// describe adds what a person wants to know about a holder. One that the caller may not see stays a key (S5.12).
func (s *server) describe(ctx context.Context, key effectonce.Key, h *LimitHolder) error {
	o, err := s.guard.Wait(ctx, key, 0)
	switch effectonce.CodeOf(err) {
	case effectonce.CodeForbidden, effectonce.CodeNotFound:
		return nil
	}
	if err != nil {
		return err
	}
	op := o.Operation
	h.State, h.Tool, h.IntentID, h.Run, h.CreatedAt = string(op.State), op.Tool, op.IntentID, op.Run, moment(op.CreatedAt)
	h.Age = duration(max(op.AsOf.Sub(op.CreatedAt), 0).Round(time.Second))
	return nil
}

// pageSize reads ?limit=; 0 where it is left out.
func pageSize(v string) (int, error) {
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > effectonce.ListLimitMax {
		return 0, invalid("query.limit", fmt.Sprintf("must be a number from 1 to %d", effectonce.ListLimitMax), "leave it out for 50")
	}
	return n, nil
}
