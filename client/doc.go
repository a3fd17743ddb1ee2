// Package client is the Go client of Effectonce's HTTP API: the vocabulary and the errors of the library, over the wire. What a
// program decides with errors.Is(err, effectonce.ErrConflict) it decides the same way here.
//
//	c, err := client.New("http://127.0.0.1:7171", client.Options{})
//	outcome, err := c.Do(ctx, client.Intent{Tool: "stripe.refund", Arguments: args})
//
// A Client never repeats a request that can have an effect. Repeating is harmless all the same: the same intent has the same effect, once; so
// on [effectonce.ErrStoreUnavailable], which also says that the daemon could not be reached or its answer was lost, ask again
// with the same intent.
//
// The package is part of the project's public promise.
package client
