// Package importer reads the exports of other programs as a stream of conversations, notes
// and memories. It knows no database.
package importer
