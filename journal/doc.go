// Package journal lets a run of an agent survive the end of its process: what a model decided for a step is stored before anything
// runs, the first decision of a step is the step's for ever, and whoever comes back reads whether to decide, to execute, to wait, to
// use a result or to stop (S10).
//
// A journal is decisions over the store's port; what became of the operations it learns from the guard. It executes nothing.
package journal
