package effectonce

import (
	"context"
	"time"

	"github.com/effectonce/effectonce/canon"
)

// Store is the port to durable storage. It persists transitions; it knows no rules. All methods are safe for concurrent
// use, by many goroutines and many processes.
//
// Every method returns an *[Error] and nothing else: [ErrStoreUnavailable] where trying again may help (busy, closed,
// connection lost), [ErrStoreBroken] where it will not (corrupt, read-only, newer schema), [ErrClockStepped] where the
// store's clock is behind its own high-water mark (S5.4), and what each method names. A cancelled context is
// ErrStoreUnavailable wrapping ctx.Err(). No raw driver error leaves a store.
//
// A store has one clock. It stamps every transition with it at the moment of the commit ([Transition.Stamp]).
type Store interface {
	Limits
	Journal
	Outbox
	Retention

	// Create persists the recording of a new operation, or returns the row that already has its key (S3.5, S5.3): one
	// atomic statement on a durable unique constraint. created says which. An operation has its Aliases as keys too, under
	// the same constraint: whatever has one of them already is the row that is returned (S3.12). A new one is first asked to
	// [Transition.Admit] (S13.2), and its Limits are reserved in the same transaction, or the error is that of
	// [Limit.Exceeded] and nothing is stored (S8.3). If the resource has a duplicate alarm the
	// transition's Hold is persisted instead; if the terms ask for twins and a recent, not failed operation of another
	// intent has the same tenant, tool and twin digest, its MarkTwin, whose error is returned and nothing is stored. If the
	// answer is lost, the row may exist; nobody has been sent anything, since the caller sends only after an answer.
	Create(ctx context.Context, t Transition) (op Operation, created bool, err error)

	// Apply persists a transition and its event if the row still has From.Version; else nothing changes and the error is
	// [ErrStaleVersion]. If the answer is lost, it may have been applied: load and see. An operation that enters or leaves
	// a duplicate alarm (Alarm set, state review) starts or ends the hold of its resource in the same transaction, and one that [Transition.Releases] gives its
	// reservations back (S8.3).
	Apply(ctx context.Context, t Transition) (Operation, error)

	// Extend lets the owner keep its lease: DueAt becomes now + lease, at most limit from the attempt's start (S5.4). It
	// is fenced by the token, refused with [ErrStaleToken] after the lease ran out, is no transition and leaves the
	// version alone. It returns how long the lease now is.
	Extend(ctx context.Context, key Key, token int64, lease, limit time.Duration) (time.Duration, error)

	// Load returns the operation that has the key, also as an alias (S3.12), with AsOf set, or [ErrNotFound].
	Load(ctx context.Context, key Key) (Operation, error)

	// Due returns up to limit operations whose DueAt has passed, those longest due first.
	Due(ctx context.Context, limit int) ([]Operation, error)

	// Waiting returns up to limit operations of a tool that somebody could take up now: pending ones without a hold, unknown ones,
	// and those whose lease ran out; the longest due first.
	Waiting(ctx context.Context, tenant, tool string, limit int) ([]Operation, error)

	// List returns a page of operations, newest first.
	List(ctx context.Context, f Filter) (Page, error)

	// Events returns the audit events of an operation, oldest first; none for an unknown key.
	Events(ctx context.Context, key Key) ([]Event, error)

	// PutDocument keeps a document (a policy version, a contract version) under the digest of its bytes; again is a no-op.
	PutDocument(ctx context.Context, doc []byte) (canon.Digest, error)
	// Document returns a kept document or [ErrNotFound].
	Document(ctx context.Context, digest canon.Digest) ([]byte, error)

	// Secret returns the installation's secret of 32 bytes, made at the first call for this store and the same ever after
	// (S3.9).
	Secret(ctx context.Context) ([]byte, error)

	// Close releases the store. Calls under way finish first; later ones get [ErrStoreUnavailable].
	Close() error
}

// Filter selects operations for a list. Zero fields select all.
type Filter struct {
	Tenant   string
	States   []State
	Tool     string
	IntentID string
	Run      string
	Step     string
	// Text matches any part of key, intent id, run, step, reference or resource.
	Text string
	// Alarmed selects operations with an alarm.
	Alarmed bool
	// After continues a list: the Next of the page before.
	After string
	// Limit is the size of a page: 1 to ListLimitMax, 0 for 50.
	Limit int
}

// ListLimitMax bounds a page.
const ListLimitMax = 500

// Page is a page of a list. Next is the After of the following page, empty at the end.
type Page struct {
	Operations []Operation
	Next       string
}
