// Package provider has the adapters of the provider port. HTTP calls an HTTP API as its contract says: it renders the frozen
// request (S3.10), sends it exactly once, tells from evidence whether anything can have left (S6.2), classifies the answer by
// contract (S6.3) and looks up what an operation did (S7.1).
//
// A placeholder in a template is an argument in braces: "{order_id}", "{amount.minor}". A template that is nothing but one
// placeholder takes the argument's value and type; within other text it takes its spelling. "{note?}" may be absent: then the
// field is left out. "{{" and "}}" stand for braces.
//
// The API is unstable.
package provider
