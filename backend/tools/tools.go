// Package tools owns custom tools: small TypeScript or JavaScript programs with a JSON Schema
// for their parameters and a list of the capabilities they ask for. It stores them with every
// version, checks them, runs them in the sandbox behind one permission decision, and moves them
// between people as signed bundles. The composition root and, through interfaces of their own,
// the domains that run tools may import it.
package tools
