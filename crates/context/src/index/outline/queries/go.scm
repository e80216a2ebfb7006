; What a Go file defines; variables and constants at the top only.
(function_declaration name: (identifier) @name body: (block) @body) @def.fn
(method_declaration name: (field_identifier) @name body: (block) @body) @def.fn
(function_declaration name: (identifier) @name) @def.fn
(type_spec name: (type_identifier) @name type: (struct_type (field_declaration_list) @body)) @def.struct
(type_spec name: (type_identifier) @name type: (interface_type)) @def.interface
(type_spec name: (type_identifier) @name) @def.type
(type_alias name: (type_identifier) @name) @def.type
(method_elem name: (field_identifier) @name) @def.fn
(source_file (const_declaration (const_spec name: (identifier) @name) @def.const))
(source_file (var_declaration (var_spec name: (identifier) @name) @def.var))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @name) @def.var)))
