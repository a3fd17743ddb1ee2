// Package canon turns JSON into one sequence of bytes per meaning, so that identities and fingerprints can be
// compared as digests (S4).
//
// Decode reads strictly and keeps number literals as they were written. Encode writes the RFC 8785 form and refuses
// what a double would merge with something else. Sum is the SHA-256 of that form. Normalisers bring the values that
// models spell in many ways (amounts, times, identifiers) into one spelling before that, and EscapeComponent makes
// the components of an intent id safe to join (S3.3).
//
// Everything here is a pure function of its arguments: no clock, no locale, no environment. What a digest depends on
// must not change with a release, so tables that decide about bytes are only ever added to.
//
// The package imports nothing of the project, and all of it is safe for concurrent use. Its API is unstable.
package canon
