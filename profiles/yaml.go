package profiles

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a text: the YAML parser takes memory with the square of the depth,
// and time with the square of the words.
const (
	maxDepth = 100
	maxWords = 40_000
)

// parseYAML parses text, or tells its first fault and where it stands.
func parseYAML(text []byte) (*ast.File, *Error) {
	tokens := lexer.Tokenize(string(text))
	if deep := tooDeep(tokens); deep != nil {
		return nil, &Error{Line: deep.Position.Line, Column: deep.Position.Column,
			Message: fmt.Sprintf("nests deeper than %d", maxDepth), Hint: "a profile takes five levels; is this the right file?"}
	}
	if len(tokens) > maxWords {
		p := tokens[maxWords].Position
		return nil, &Error{Line: p.Line, Column: p.Column,
			Message: fmt.Sprintf("has more than %d words and signs", maxWords), Hint: "a profile takes some hundred; is this the right file?"}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file, nil
	}
	fault := &Error{Message: err.Error()}
	if syntax, ok := errors.AsType[yaml.Error](err); ok {
		fault.Message = syntax.GetMessage()
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			fault.Line, fault.Column = t.Position.Line, t.Position.Column
		}
	}
	fault.Message = "is no YAML: " + fault.Message
	return nil, fault
}

// tooDeep returns the token at which the text nests deeper than maxDepth, nil
// when none does. Brackets nest from the one that opens to the one that closes;
// dashes, keys and tags nest as long as they go on in one line or further in.
func tooDeep(tokens token.Tokens) *token.Token {
	flow := 0
	var columns []int // of the open blocks, from the outermost
	line, run := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		case token.TagType, token.AnchorType:
			if t.Position.Line != line {
				line, run = t.Position.Line, 0
			}
			run++
		}
		if flow > maxDepth || len(columns) > maxDepth || run > maxDepth {
			return t
		}
	}
	return nil
}
