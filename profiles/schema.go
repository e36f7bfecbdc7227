package profiles

import (
	"reflect"
	"strings"
)

// fieldTag is what the struct tags of a field say about its YAML form.
type fieldTag struct {
	key       string
	omitEmpty bool
	required  bool // a profile file must have it
	unknown   bool // the zero value may be written as `unknown`
}

func tagOf(f reflect.StructField) fieldTag {
	key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	rules := f.Tag.Get("profile")
	return fieldTag{
		key:       key,
		omitEmpty: options == "omitempty",
		required:  strings.Contains(rules, "required"),
		unknown:   strings.Contains(rules, "unknown"),
	}
}

// keys lists the YAML names of a struct's fields, in order.
func keys(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		names = append(names, tagOf(t.Field(i)).key)
	}
	return names
}

func fieldByKey(v reflect.Value, key string) (reflect.Value, fieldTag, bool) {
	for i := range v.NumField() {
		if tag := tagOf(v.Type().Field(i)); tag.key == key {
			return v.Field(i), tag, true
		}
	}
	return reflect.Value{}, fieldTag{}, false
}

// setUnknown makes every name under v Unknown and every count zero.
func setUnknown(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			setUnknown(v.Field(i))
		}
	case reflect.String:
		v.SetString(Unknown)
	default:
		v.SetZero()
	}
}

// hasForm says whether a type reads and writes its YAML itself.
func hasForm(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[noder]())
}

// placesOf returns the dotted paths of the format that end in key.
func placesOf(key string) []string {
	var found []string
	walkSchema(reflect.TypeFor[Profile](), "", func(path string) {
		if strings.HasSuffix(path, "."+key) || path == key {
			found = append(found, path)
		}
	})
	return found
}

// walkSchema calls visit with the dotted path of each field of the format.
func walkSchema(t reflect.Type, path string, visit func(path string)) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || hasForm(t) {
		return
	}
	for i := range t.NumField() {
		field := join(path, tagOf(t.Field(i)).key)
		visit(field)
		walkSchema(t.Field(i).Type, field, visit)
	}
}

// clone copies a profile with all that it points to.
func clone(p *Profile) *Profile {
	out := new(Profile)
	deepCopy(reflect.ValueOf(out).Elem(), reflect.ValueOf(p).Elem())
	return out
}

func deepCopy(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			deepCopy(to.Field(i), from.Field(i))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			deepCopy(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				deepCopy(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for _, key := range from.MapKeys() {
				value := reflect.New(from.Type().Elem()).Elem()
				deepCopy(value, from.MapIndex(key))
				to.SetMapIndex(key, value)
			}
		}
	default:
		to.Set(from)
	}
}
