/** The address of a file that is served beside the page. */
declare module '*?url' {
  const url: string
  export default url
}
