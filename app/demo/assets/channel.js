// Hands an action's answers to the page, and the page's wishes to the action.
repaint.channels[props.name] = (asked = {}) => {
  props.value = asked;
  setTimeout(() => trigger("asked"));
};
watch("value", () => props.value && repaint.director.heard(props.name, props.value));
