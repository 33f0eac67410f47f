// Package vector finds the nearest of many vectors of unit length. It keeps one bit a
// dimension in memory, scans those, and scores the best exactly from a file beside them.
package vector
