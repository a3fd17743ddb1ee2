// Package policy reads the arguments of a tool call as the tool's policy says: which of them identify the intent, which
// are compared, which are text that a model may rephrase, and how each is spelled (S3.2, S3.3, S4).
//
// A [Spec] is what somebody wrote; [Compile] checks it whole and makes a [Tool] of it; [Tool.Read] turns the arguments
// and metadata of one call into a [Reading]. [Tool.Document] is the policy as canonical JSON. It is stored under its
// digest, the tool's Version, and [FromDocument] rebuilds the tool from it, so that a repeat is read under the version
// of the first claim (S3.11).
//
// The package knows neither providers nor stores: what a policy says about the call is handed on as it is.
//
// # What templates see
//
// A template is text with placeholders in braces. In intent_id and resource a placeholder is an argument
// ({order_id}), a part of an amount ({amount.minor}) or call metadata ({meta.ticket}); every component is escaped, so
// that no two tuples give one id. The call's body, path and headers are rendered by the provider adapter from
// Reading.Template: the business arguments after normalisers and defaults, in which an amount is
// {"minor": 48000, "decimal": "480.00", "currency": "EUR"}. Free and dropped arguments are in neither.
//
// # Keys that the caller supplies
//
// Arguments named idempotency_key, in any case and with or without the separator, and those the policy lists under
// drop, are recorded for the audit, never fingerprinted and never sent: neither agents nor tools mint keys (S3.1, S3.9).
//
// All of it is safe for concurrent use and pure: no clock, no environment. The API is unstable.
package policy
