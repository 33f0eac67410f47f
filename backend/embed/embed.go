// Package embed turns sentences into vectors whose inner product says how near they are in
// meaning. It runs the Universal Sentence Encoder Lite (Cer et al. 2018) on this machine.
package embed
