// Package contract reads what providers promise about repeats, as data: how they dedupe and for how long, how to look up
// what an operation did, and what their answers mean (S14.5).
//
// A contract is a YAML file. Each claim in it names its source, and each source has an address, a date and a grade. A
// claim without a good source counts as unknown, and unknown fails closed: an unsourced window justifies no resend, an
// unsourced lag lets no absence be concluded, an unclassified answer is unknown. The loader refuses what would be
// dangerous to believe, with file, line, field and remedy.
//
// A few contracts are built in (see Builtin). A generic one leaves some facts to the operator of an installation, who
// gives them as Settings; they never come from a request.
//
// Everything here is immutable after loading and safe for concurrent use. The API is unstable.
package contract
