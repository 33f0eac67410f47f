package sandbox

// CheckNesting refuses, as CompileJS does, a source that is nested too deeply to be parsed
// safely: a parser that calls itself at each level would use up the stack, which ends the
// process. Whoever parses the text of a tool asks this first. The error is *Error of class
// compile with a CompileDetail.
func CheckNesting(s Source) error {
	if e := checkNesting(s); e != nil {
		return e
	}
	return nil
}
