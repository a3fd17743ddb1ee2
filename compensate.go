package effectonce

import (
	"context"
	"fmt"
)

// This file is S11.3: what took effect is undone by an operation of its own, guarded like any other.

// CompensationID is the intent id of an operation's compensation. It is made of the operation's key, so that there is only one.
func CompensationID(of Key) string { return "compensate:" + of.String() }

// compensates links op to the operation that it undoes, which must have taken effect.
func (g *Guard) compensates(ctx context.Context, op *Operation, of Key) error {
	refuse := func(detail, remedy string) error {
		return &Error{Code: CodeNotAllowed, Key: of, Field: "compensates", Detail: detail, Remedy: remedy}
	}
	first, err := g.load(ctx, of)
	if err != nil {
		return err
	}
	if err := g.access(ctx, first); err != nil {
		return err
	}
	switch {
	case first.Tenant != op.Tenant:
		return &Error{Code: CodeNotFound, Key: of, Detail: "no operation has this key"}
	case first.State == StateFailed:
		return refuse("it failed: there is nothing to undo", "")
	case first.State != StateSucceeded:
		return refuse(fmt.Sprintf("it is %s: whether there is something to undo is not known", first.State), "wait until it is settled, or resolve it")
	}
	op.Compensates = of
	return nil
}
