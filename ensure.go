package effectonce

import (
	"context"
	"errors"
)

// Ensure makes a provider of a convergent tool: observe, apply if different, observe again (S11.1). Its repeats are harmless; give
// the intent's terms [ClassConvergent].
//
// observe returns the state as it is, and whether it is the one that the call asks for; it has no effect. apply brings it about, and
// may be called again whatever became of an earlier call. An error of the first observation means that nothing was sent; one of
// apply that the outcome is unknown, unless it is wrapped by [Rejected] or [NotSent]. A state that is still another one afterwards is
// unknown too, and is applied again.
func Ensure[S any](observe func(ctx context.Context, call Call) (state S, met bool, err error), apply func(ctx context.Context, call Call, state S) error) Function {
	return Function{call: func(ctx context.Context, c Call) End {
		state, met, err := observe(ctx, c)
		if err != nil {
			return endOf(nil, NotSent(err))
		}
		if met {
			return endOf(state, nil)
		}
		if err := apply(ctx, c, state); err != nil {
			return endOf(nil, err)
		}
		state, met, err = observe(ctx, c)
		switch {
		case err != nil:
			// A refused look is no refusal of what was applied.
			return endOf(nil, errors.New("applied, and the state could not be observed: "+err.Error()))
		case !met:
			return endOf(nil, errors.New("applied, and the state is not yet the one that was asked for"))
		}
		return endOf(state, nil)
	}}
}
