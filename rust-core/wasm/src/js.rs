//! The JavaScript built-ins that the bindings use. (js-sys has all of them, and takes longer to compile than the core.)

use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    pub type Error;

    #[wasm_bindgen(constructor)]
    pub fn new(message: &str) -> Error;

    #[wasm_bindgen(method, setter)]
    pub fn set_code(this: &Error, code: &str);

    #[cfg(feature = "server")]
    #[wasm_bindgen(method, setter)]
    pub fn set_operation(this: &Error, operation: u32);

    #[cfg(feature = "server")]
    #[wasm_bindgen(method, setter)]
    pub fn set_reason(this: &Error, reason: &str);
}

#[cfg(feature = "hints")]
#[wasm_bindgen]
extern "C" {
    pub type Object;

    #[wasm_bindgen(constructor)]
    pub fn new() -> Object;

    #[wasm_bindgen(js_namespace = Reflect, catch)]
    pub fn get(object: &JsValue, name: &str) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(js_namespace = Reflect)]
    pub fn set(object: &Object, name: &str, value: &JsValue) -> bool;

    pub type Array;

    #[wasm_bindgen(constructor)]
    pub fn new() -> Array;

    #[wasm_bindgen(method)]
    pub fn push(this: &Array, value: &JsValue) -> u32;
}
